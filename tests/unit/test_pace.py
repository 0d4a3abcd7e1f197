"""Lag and duration by hour, and when a stream will have caught up, out of its newest runs."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from tideline.model.run import RunRecord
from tideline.page.pace import build_pace

NOW = datetime(2026, 1, 2, 12, 30, tzinfo=UTC)


def run(minutes_ago, unread, read=100, seconds=60, **facts):
    """A live run that was planned so long ago; of its plan only what counts here."""
    at = NOW - timedelta(minutes=minutes_ago)
    plan = SimpleNamespace(frozen_at=at, estimated_records=read, offset_lag=unread - read)
    ended = at + timedelta(seconds=seconds)
    known = {"begun_at": at, "verified": (SimpleNamespace(rows=read),), "plan": plan, **facts}
    return replace(RunRecord("r", "live", "done", "d", ended), **known)


def test_runs_of_an_hour_stand_together():
    """The most unread, the longest duration, all rows; backfills and older runs do not count."""
    records = [
        run(10, 300, seconds=30),
        run(20, 500),
        run(25, 900, lane="backfill"),
        run(26, 900, finishes="another"),
        run(95, 700, begun_at=None),
        run(60 * 25, 9_000),
    ]
    found = build_pace(records, None, NOW)
    assert [(h.begins_at.hour, h.runs, h.rows, h.unread, h.seconds) for h in found.hours] == [
        (10, 1, 100, 700, None),
        (12, 2, 200, 500, 60),
    ]
    assert (found.caught_up_at, found.grows) == (None, False)


@pytest.mark.parametrize(
    ("records", "lag", "hours", "grows"),
    [
        ([run(60, 3_000), run(120, 4_000)], 2_000, 2, False),  # 1,000 an hour
        ([run(60, 3_000), run(120, 4_000)], 4_100, None, True),
        ([run(60, 3_000), run(120, 4_000)], 4_000, None, True),
        ([run(60, 3_000), run(120, 4_000)], 90, None, False),  # the next run reads it all
        ([run(60, 3_000), run(120, 4_000)], None, None, False),
        ([run(5, 4_000)], 2_000, None, False),  # too short a time
        ([run(60 * 7, 4_000)], 2_000, None, False),  # too long ago
        ([], 2_000, None, False),
    ],
)
def test_when_a_stream_will_have_caught_up(records, lag, hours, grows):
    """At the pace of the last six hours."""
    found = build_pace(records, lag, NOW)
    at = None if hours is None else NOW + timedelta(hours=hours)
    assert (found.caught_up_at, found.grows) == (at, grows)
