"""Rows 1-5: records that were deleted before, while or after they were read."""

import time

import pytest

from tests.faults.trial import LANDED, Meddled
from tideline.errors import ReplayUnavailable, ServiceAway

SMALL_SEGMENTS = {"internal.segment.bytes": "1000"}


def assert_names(incident, start, end):
    """The finding names exactly what was lost."""
    finding = incident.finding
    assert (finding.lost_start, finding.lost_end) == (start, end)
    assert f"[{start}, {end})" in str(finding)


def test_time_retention(trial):
    """Detection: the log start has passed the position."""
    trial.follow(config=SMALL_SEGMENTS)
    trial.lands()
    trial.send(50)
    trial.configure(retention_ms="1000")
    trial.wait_log_start(at=LANDED + 50)
    trial.configure(retention_ms="-1")
    trial.send(20)
    assert_names(trial.halts("retention_loss"), LANDED, LANDED + 50)
    assert trial.is_untouched
    trial.judge(1, "time retention")


@pytest.mark.slow
def test_time_retention_of_old_records(trial):
    """Detection: the log start has passed the position."""
    last_year = int((time.time() - 365 * 86_400) * 1000)
    trial.follow(config={"retention.ms": "-1"})
    trial.lands(timestamp_ms=last_year)
    trial.send(50, timestamp_ms=last_year)
    trial.configure(retention_ms="86400000")
    trial.wait_log_start(at=LANDED + 50)
    trial.send(20)
    assert_names(trial.halts("retention_loss"), LANDED, LANDED + 50)
    assert trial.is_untouched
    trial.judge(1, "time retention: CreateTime of last year")


@pytest.mark.slow
def test_size_retention(trial):
    """Detection: the log start has passed the position."""
    trial.follow(config=SMALL_SEGMENTS)
    trial.lands(5)
    trial.send(40, size=500, each_alone=True)
    trial.configure(retention_bytes="5000")
    start = trial.wait_log_start(at=6)
    assert start < 45
    assert_names(trial.halts("retention_loss"), 5, start)
    assert trial.is_untouched
    trial.judge(2, "size retention")


def test_records_deleted_between_runs(trial):
    """Detection: the log start has passed the position."""
    trial.follow()
    trial.lands()
    trial.send(50)
    trial.world.delete_records(before=130)
    assert_names(trial.halts("retention_loss"), LANDED, 130)
    assert_names(trial.halts("retention_loss"), LANDED, 130)
    assert trial.incidents_opened == 1
    assert trial.is_untouched
    trial.judge(3, "DeleteRecords between runs")


@pytest.mark.slow
def test_records_deleted_between_check_and_read(trial):
    """Spark's failOnDataLoss; then detection: the log start has passed the position."""
    trial.follow()
    trial.lands()
    trial.send(50)
    meddled = Meddled(trial.spark, before=lambda: trial.world.delete_records(before=130))
    trial.fails(ServiceAway, meddled)
    assert trial.is_untouched
    cleared = trial.fails(ReplayUnavailable, run_id=trial.run_id)
    assert "still there: [130, 150)" in cleared.message
    assert_names(trial.halts("retention_loss"), LANDED, 130)
    assert trial.is_untouched
    trial.judge(4, "DeleteRecords between check and read")


@pytest.mark.slow
def test_records_deleted_between_read_and_check(trial):
    """Count of committed rows; a log start that moved after the read is no matter (R7)."""
    trial.follow()
    trial.lands()
    trial.send(50)
    trial.run(Meddled(trial.spark, after=lambda: trial.world.delete_records(before=150)))
    trial.assert_exact()
    trial.judge(5, "DeleteRecords after the commit, before the check of it")
