"""How much a stream's runs found unread and how long they took, by hour; when it will catch up.

Made of the ledger's newest runs: the head keeps days alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from tideline.contract import page
from tideline.model.run import RunRecord

MOST_RUNS = 300
"""So many of the newest closed runs are read at most."""
_HOURS = timedelta(hours=24)
_PACE = timedelta(hours=6)
"""The pace is that of so long ago until now."""
_LEAST = timedelta(minutes=10)
_FURTHEST = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class _Run:
    """A live run: when it was planned, what it found unread then, what it read, what it took."""

    at: datetime
    unread: int
    read: int
    rows: int
    seconds: float | None


def build_pace(records: Iterable[RunRecord], lag: int | None, now: datetime) -> page.Pace:
    """Hours of the last day in which live runs were planned, oldest first, and what follows.

    Args:
        records: Closed runs, the newest first; read as far as a day back.
        lag: Offsets that are unread now; None if unknown.
        now: UTC-aware.
    """
    recent = takewhile(lambda record: record.updated_at > now - _HOURS, records)
    known = [run for record in recent if (run := _run(record)) is not None]
    hours: dict[datetime, list[_Run]] = {}
    for run in known:
        hours.setdefault(run.at.replace(minute=0, second=0, microsecond=0), []).append(run)
    end, grows = _outlook(known, lag, now)
    return page.Pace(
        hours=[
            page.Hour(
                begins_at=begin,
                runs=len(runs),
                rows=sum(run.rows for run in runs),
                unread=max(run.unread for run in runs),
                seconds=max((r.seconds for r in runs if r.seconds is not None), default=None),
            )
            for begin, runs in sorted(hours.items())
        ],
        caught_up_at=end,
        grows=grows,
    )


def _run(record: RunRecord) -> _Run | None:
    """None for a backfill, and for a run without a plan of its own."""
    plan = record.plan
    if plan is None or record.lane != "live" or record.finishes is not None:
        return None
    took = None if record.begun_at is None else record.updated_at - record.begun_at
    return _Run(
        at=plan.frozen_at,
        unread=plan.estimated_records + plan.offset_lag,
        read=plan.estimated_records,
        rows=sum(v.rows for v in record.verified),
        seconds=None if took is None else took.total_seconds(),
    )


def _outlook(runs: Iterable[_Run], lag: int | None, now: datetime) -> tuple[datetime | None, bool]:
    """When nothing is left at the pace of the last hours, and whether the lag grows.

    What one run reads is no lag to catch up with: the next run reads it.
    """
    known = [run for run in runs if run.at > now - _PACE]
    if not known or lag is None or lag <= max(run.read for run in known):
        return None, False
    first = min(known, key=lambda run: run.at)
    if now - first.at < _LEAST:
        return None, False
    less = first.unread - lag
    left = (now - first.at) * (lag / less) if less > 0 else _FURTHEST
    return (now + left, False) if left < _FURTHEST else (None, True)
