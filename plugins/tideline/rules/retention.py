"""Which quarantined rows are old enough to go, and which have gone. Pure.

How long a row is kept is counted from the plan that put it there, not from the record's own time:
whoever decodes an old topic has as long for its bad records as for any other's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta

from tideline.model.coverage import Intervals, by_log, subtract, union
from tideline.model.decoding import DecodeRecord
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.retention import LetGo, Places


def plans_before(records: Iterable[DecodeRecord], now: datetime, days: int) -> frozenset[str]:
    """The ids of plans that were verified last so many days ago, or earlier.

    Args:
        records: Every closing of every plan, in any order; a plan that is cleared closes again.
        now: UTC-aware.
        days: How long rows are kept.
    """
    newest: dict[str, datetime] = {}
    for record in records:
        at = record.closed_at or record.plan.frozen_at
        newest[record.plan.plan_id] = max(at, newest.get(record.plan.plan_id, at))
    last = now - timedelta(days=days)
    return frozenset(plan_id for plan_id, at in newest.items() if at <= last)


def hulls(gone: Places, kept: Places) -> Places:
    """Few ranges that hold all rows which go, and none that stays.

    Args:
        gone: Where the rows are that go.
        kept: Where the table's other rows are.
    """
    found: dict[PartitionIdentity, Intervals] = {}
    for identity, intervals in gone.items():
        others = [r.start_offset for r in union(kept.get(identity, ()))]
        merged: list[OffsetRange] = []
        for piece in union(intervals):
            start = merged[-1].start_offset if merged else piece.start_offset
            if merged and bisect_left(others, start) == bisect_left(others, piece.start_offset):
                merged[-1] = OffsetRange(start, piece.end_offset)
            else:
                merged.append(piece)
        found[identity] = tuple(merged)
    return found


def still_let_go(events: Iterable[LetGo | DecodeRecord]) -> dict[PartitionIdentity, Intervals]:
    """The coordinates of rows that were let go, and not decoded again since.

    Args:
        events: What was let go, and what was decoded, in the order of the ledger.
    """
    found: dict[PartitionIdentity, Intervals] = defaultdict(tuple)
    for event in events:
        ranges = event.ranges if isinstance(event, LetGo) else event.plan.ranges
        for identity, pieces in by_log(ranges).items():
            if isinstance(event, LetGo):
                found[identity] = union(found[identity], pieces)
            else:
                found[identity] = subtract(found[identity], pieces)
    return {identity: pieces for identity, pieces in found.items() if pieces}
