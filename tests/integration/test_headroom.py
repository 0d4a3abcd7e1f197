"""Retention headroom as `plan`, `ledger` and a run's log tell it."""

import logging
import re

import pytest

from devstack.command_line import finished, tideline
from tideline.model.request import RunRequest
from tideline.pipeline.steps import detect_earliest_reset
from tideline.stream.files import read_stream
from tideline.wiring import open_ledger, open_run

HOUR_MS = 3_600_000


@pytest.fixture
def path(harness):
    """Two unread partitions of three, kept for one hour."""
    harness.create(partitions=3, **{"retention.ms": str(HOUR_MS)})
    harness.send(5)
    harness.send(50, partition=1)
    return harness.stream_file(headroom_warning_seconds=2 * HOUR_MS // 1000)


def detected(path, run_id):
    with open_run(read_stream(path), run_id, RunRequest()) as run:
        return detect_earliest_reset(run)


def test_plan_shows_the_time_left_per_unread_partition(path, harness):
    """An hour less the age of the oldest unread record."""
    status, answer, _ = finished(tideline("plan", path, "--json"))
    assert status == 0
    assert {h["partition"] for h in answer["headroom"]} == {0, 1}
    for headroom in answer["headroom"]:
        assert (headroom["next_offset"], headroom["retention_ms"]) == (0, HOUR_MS)
        assert 3500 < headroom["seconds_left"] <= 3600
    _, text, _ = finished(tideline("plan", path))
    assert re.search(rf"{harness.topic()}-1: retention reaches offset 0 in (59|58) min", text)


def test_a_run_warns_below_the_threshold_and_the_ledger_remembers(path, caplog):
    """headroom_warning_seconds; the ledger's figure is as of the last run, counted from now."""
    with caplog.at_level(logging.WARNING, logger="tideline"):
        detected(path, "run")
    assert "retention reaches offset 0" in caplog.text
    assert len(open_ledger(read_stream(path)).read().head.headroom) == 2
    _, ledger, _ = finished(tideline("ledger", path, "--json"))
    assert [0 < h["seconds_left"] <= 3600 for h in ledger["headroom"]] == [True, True]


def test_what_is_kept_for_good_has_no_limit(harness, caplog):
    """retention.ms = -1: nothing to warn about."""
    harness.create(partitions=1, **{"retention.ms": "-1"})
    harness.send(5)
    path = harness.stream_file()
    with caplog.at_level(logging.WARNING, logger="tideline"):
        detected(path, "run")
    assert "retention reaches" not in caplog.text
    (headroom,) = open_ledger(read_stream(path)).read().head.headroom
    assert headroom.expires_at is None
