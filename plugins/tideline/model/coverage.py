"""Interval arithmetic over half-open offset ranges.

A normalized sequence is sorted, disjoint and non-adjacent; every function here takes any
ranges and returns a normalized tuple.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity

Intervals = tuple[OffsetRange, ...]


def union(*groups: Iterable[OffsetRange]) -> Intervals:
    """Every offset that is in any of the groups."""
    items = [r for group in groups for r in group if len(r)]
    if len(items) < 2:
        return tuple(items)
    merged: list[OffsetRange] = []
    for item in sorted(items):
        if merged and item.start_offset <= merged[-1].end_offset:
            last = merged[-1]
            merged[-1] = OffsetRange(last.start_offset, max(last.end_offset, item.end_offset))
        else:
            merged.append(item)
    return tuple(merged)


def subtract(whole: Iterable[OffsetRange], part: Iterable[OffsetRange]) -> Intervals:
    """Every offset of `whole` that is not in `part`."""
    holes = union(part)
    left: list[OffsetRange] = []
    index = 0
    for item in union(whole):
        start = item.start_offset
        while index < len(holes) and holes[index].start_offset < item.end_offset:
            hole = holes[index]
            if hole.start_offset > start:
                left.append(OffsetRange(start, hole.start_offset))
            start = max(start, hole.end_offset)
            if hole.end_offset > item.end_offset:
                break  # the same hole may reach into the next item
            index += 1
        if start < item.end_offset:
            left.append(OffsetRange(start, item.end_offset))
    return tuple(left)


def intersect(one: Iterable[OffsetRange], other: Iterable[OffsetRange]) -> Intervals:
    """Every offset that is in both."""
    left = union(one)
    return subtract(left, subtract(left, other))


def overlaps(ranges: Iterable[OffsetRange]) -> Intervals:
    """Every offset that is in more than one of the ranges."""
    repeated: list[OffsetRange] = []
    reach: int | None = None
    for item in sorted(r for r in ranges if len(r)):
        if reach is not None and item.start_offset < reach:
            repeated.append(OffsetRange(item.start_offset, min(reach, item.end_offset)))
        reach = item.end_offset if reach is None else max(reach, item.end_offset)
    return union(repeated)


def total(ranges: Iterable[OffsetRange]) -> int:
    """How many distinct offsets the ranges hold."""
    return sum(len(r) for r in union(ranges))


@dataclass(frozen=True, slots=True)
class Coverage:
    """Verified offsets of one partition identity.

    Args:
        identity: The log that the offsets belong to.
        intervals: Normalized ranges that finished runs have read and verified.
    """

    identity: PartitionIdentity
    intervals: Intervals = field(default=())


def add_coverage(
    coverage: Iterable[Coverage], landed: Iterable[tuple[PartitionIdentity, OffsetRange]]
) -> tuple[Coverage, ...]:
    """The coverage after more ranges have been verified.

    Args:
        coverage: What is verified so far, at most one entry per identity.
        landed: Ranges to add; they may overlap.

    Returns:
        One normalized entry per identity, sorted by identity.
    """
    known: dict[PartitionIdentity, list[OffsetRange]] = {
        c.identity: list(c.intervals) for c in coverage
    }
    for identity, offset_range in landed:
        known.setdefault(identity, []).append(offset_range)
    return tuple(Coverage(identity, union(known[identity])) for identity in sorted(known))


def by_identity(coverage: Iterable[Coverage]) -> dict[PartitionIdentity, Intervals]:
    """The intervals of each entry; at most one entry per identity."""
    return {c.identity: c.intervals for c in coverage}


def by_log(ranges: Iterable[CoordinateRange]) -> dict[PartitionIdentity, Intervals]:
    """The offsets that some ranges mean in each log."""
    return by_identity(add_coverage((), ((r.identity, r.offsets) for r in ranges)))


def covered_until(coverage: Iterable[OffsetRange], next_offset: int) -> int:
    """The first offset at or after `next_offset` that is not covered (R12).

    Args:
        coverage: Verified ranges of one partition.
        next_offset: Where to begin (inclusive).
    """
    for item in union(coverage):
        if item.start_offset <= next_offset < item.end_offset:
            return item.end_offset
    return next_offset


def uncovered_from(coverage: Iterable[OffsetRange], start: int, end: int) -> int:
    """The end (exclusive) of the uncovered range that begins at `start`.

    Args:
        coverage: Verified ranges of one partition; none of them holds `start`.
        start: First offset (inclusive).
        end: Answer if nothing from `start` on is covered (exclusive); no upper bound otherwise.
    """
    return min((r.start_offset for r in union(coverage) if start < r.start_offset), default=end)
