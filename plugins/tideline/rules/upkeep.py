"""Which small data files are merged into one, and which quarantined rows are old enough to go.

Files are merged only with files of the same partition values, and of the same log where their
statistics name one: a file that holds a single log proves by its statistics what it holds, and
checks need not read it.

How long a row is kept is counted from the plan that put it there, not from the record's own time:
whoever decodes an old topic has as long for its bad records as for any other's.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from tideline.model.decoding import DecodeRecord
from tideline.model.maintenance import ExpiredRows, TableFile
from tideline.model.offsets import Intervals, OffsetRange, PartitionIdentity, subtract, union
from tideline.model.places import Places

Group = tuple[TableFile, ...]
"""Files that one file replaces, in the order of their rows in it; two at least."""


def plan_merges(
    files: Iterable[TableFile], *, below_bytes: int, target_bytes: int
) -> tuple[Group, ...]:
    """The files to merge.

    Args:
        below_bytes: Files of this size or larger are left alone.
        target_bytes: The files of a group are not larger together; at least `below_bytes`.

    Returns:
        Groups with files in the order of their offsets. No file is in two of them, and none in a
        group by itself.
    """
    alike: dict[object, list[TableFile]] = defaultdict(list)
    for file in files:
        if file.bytes < below_bytes:
            alike[file.partition, file.holds].append(file)
    groups = (
        group
        for key in sorted(alike, key=repr)
        for group in _packed(sorted(alike[key], key=_in_order), target_bytes)
    )
    return tuple(group for group in groups if len(group) > 1)


def rounds(groups: Iterable[Group], most_bytes: int) -> tuple[tuple[Group, ...], ...]:
    """Groups, split into transactions: a conflict or a crash loses one of them at most.

    Args:
        most_bytes: Of the files of one transaction, unless a single group has more.
    """
    split: list[list[Group]] = []
    room = 0
    for group in groups:
        size = sum(file.bytes for file in group)
        if not split or size > room:
            split.append([])
            room = most_bytes
        split[-1].append(group)
        room -= size
    return tuple(map(tuple, split))


def _packed(files: Sequence[TableFile], target_bytes: int) -> list[Group]:
    packed: list[Group] = []
    gathered: list[TableFile] = []
    for file in files:
        if sum(f.bytes for f in gathered) + file.bytes > target_bytes:
            packed.append(tuple(gathered))
            gathered = []
        gathered.append(file)
    return [*packed, tuple(gathered)]


def _in_order(file: TableFile) -> tuple[int, str]:
    return (-1 if file.low is None else file.low, file.path)


def plans_before(records: Iterable[DecodeRecord], now: datetime, days: int) -> frozenset[str]:
    """The ids of plans that were verified last so many days ago, or earlier.

    Args:
        records: Every closing of every plan, in any order; a plan that is cleared closes again.
        now: UTC-aware.
    """
    newest: dict[str, datetime] = {}
    for record in records:
        at = record.closed_at or record.plan.frozen_at
        newest[record.plan.plan_id] = max(at, newest.get(record.plan.plan_id, at))
    last = now - timedelta(days=days)
    return frozenset(plan_id for plan_id, at in newest.items() if at <= last)


def bounding_ranges(gone: Places, kept: Places) -> Places:
    """Few ranges that hold all rows which go, and none that stays.

    Quarantined rows are few among many: named one by one, they would fill the ledger.
    """
    found: dict[PartitionIdentity, Intervals] = {}
    for identity, intervals in gone.items():
        others = [r.start_offset for r in kept[identity]]
        merged: list[OffsetRange] = []
        for piece in intervals:
            start = merged[-1].start_offset if merged else piece.start_offset
            # no row that stays begins between the two
            if merged and bisect_left(others, start) == bisect_left(others, piece.start_offset):
                merged[-1] = OffsetRange(start, piece.end_offset)
            else:
                merged.append(piece)
        found[identity] = tuple(merged)
    return Places(found)


def still_expired(events: Iterable[ExpiredRows | DecodeRecord]) -> Places:
    """The coordinates of rows that were let go, and not decoded again since.

    Args:
        events: In the order of the ledger.
    """
    found: dict[PartitionIdentity, Intervals] = defaultdict(tuple)
    for event in events:
        ranges = event.ranges if isinstance(event, ExpiredRows) else event.plan.ranges
        for identity, pieces in Places.of(ranges).items():
            if isinstance(event, ExpiredRows):
                found[identity] = union(found[identity], pieces)
            else:
                found[identity] = subtract(found[identity], pieces)
    return Places(found)
