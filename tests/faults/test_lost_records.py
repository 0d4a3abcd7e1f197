"""Rows 1-5: records that were deleted before, while or after they were read."""

import time

import pytest

from tests.faults.fault_case import LANDED
from tests.worlds.spark_doubles import HookedSpark
from tideline.errors import ReplayUnavailable, ServiceAway

SMALL_SEGMENTS = {"internal.segment.bytes": "1000"}


def assert_names(incident, start, end):
    """The finding names exactly what was lost."""
    finding = incident.finding
    assert (finding.lost_start, finding.lost_end) == (start, end)
    assert f"[{start}, {end})" in str(finding)


def test_time_retention(fault_case):
    """Detection: the log start has passed the position."""
    fault_case.follow(config=SMALL_SEGMENTS)
    fault_case.lands()
    fault_case.send(50)
    fault_case.configure(retention_ms="1000")
    fault_case.wait_log_start(at=LANDED + 50)
    fault_case.configure(retention_ms="-1")
    fault_case.send(20)
    assert_names(fault_case.halts("retention_loss"), LANDED, LANDED + 50)
    assert fault_case.is_untouched
    fault_case.judge(1, "time retention")


@pytest.mark.slow
def test_time_retention_of_old_records(fault_case):
    """Detection: the log start has passed the position."""
    last_year = int((time.time() - 365 * 86_400) * 1000)
    fault_case.follow(config={"retention.ms": "-1"})
    fault_case.lands(timestamp_ms=last_year)
    fault_case.send(50, timestamp_ms=last_year)
    fault_case.configure(retention_ms="86400000")
    fault_case.wait_log_start(at=LANDED + 50)
    fault_case.send(20)
    assert_names(fault_case.halts("retention_loss"), LANDED, LANDED + 50)
    assert fault_case.is_untouched
    fault_case.judge(1, "time retention: CreateTime of last year")


@pytest.mark.slow
def test_size_retention(fault_case):
    """Detection: the log start has passed the position."""
    fault_case.follow(config=SMALL_SEGMENTS)
    fault_case.lands(5)
    fault_case.send(40, size=500, each_alone=True)
    fault_case.configure(retention_bytes="5000")
    start = fault_case.wait_log_start(at=6)
    assert start < 45
    assert_names(fault_case.halts("retention_loss"), 5, start)
    assert fault_case.is_untouched
    fault_case.judge(2, "size retention")


def test_records_deleted_between_runs(fault_case):
    """Detection: the log start has passed the position."""
    fault_case.follow()
    fault_case.lands()
    fault_case.send(50)
    fault_case.harness.delete_records(before=130)
    assert_names(fault_case.halts("retention_loss"), LANDED, 130)
    assert_names(fault_case.halts("retention_loss"), LANDED, 130)
    assert fault_case.incidents_opened == 1
    assert fault_case.is_untouched
    fault_case.judge(3, "DeleteRecords between runs")


@pytest.mark.slow
def test_records_deleted_between_check_and_read(fault_case):
    """Spark's failOnDataLoss; then detection: the log start has passed the position."""
    fault_case.follow()
    fault_case.lands()
    fault_case.send(50)
    hooked_spark = HookedSpark(
        fault_case.spark, before=lambda: fault_case.harness.delete_records(before=130)
    )
    fault_case.fails(ServiceAway, hooked_spark)
    assert fault_case.is_untouched
    cleared = fault_case.fails(ReplayUnavailable, run_id=fault_case.run_id)
    assert "still there: [130, 150)" in cleared.message
    assert_names(fault_case.halts("retention_loss"), LANDED, 130)
    assert fault_case.is_untouched
    fault_case.judge(4, "DeleteRecords between check and read")


@pytest.mark.slow
def test_records_deleted_between_read_and_check(fault_case):
    """Count of committed rows; a log start that moved after the read is no matter (R7)."""
    fault_case.follow()
    fault_case.lands()
    fault_case.send(50)
    fault_case.run(
        HookedSpark(fault_case.spark, after=lambda: fault_case.harness.delete_records(before=150))
    )
    fault_case.assert_exact()
    fault_case.judge(5, "DeleteRecords after the commit, before the check of it")
