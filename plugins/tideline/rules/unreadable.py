"""From failed reads to findings about unreadable records.

Spark names no offset where it fails, so failing ranges are read in halves until single offsets are
left. An offset counts if it fails twice by itself; an error that may pass is raised and proves
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from tideline.model.incident import Finding
from tideline.model.offsets import CoordinateRange, union
from tideline.model.places import Places
from tideline.model.plan import BatchPlan
from tideline.model.spark_job import Unreadable

Attempt = Callable[[Sequence[CoordinateRange]], str | None]
"""Reads ranges; why a record cannot be read, None if all can. Raises what may pass."""


def bisect(
    ranges: Sequence[CoordinateRange],
    attempt: Attempt,
    *,
    most: int,
    is_late: Callable[[], bool] = lambda: False,
) -> tuple[Unreadable, ...]:
    """The offsets of failed ranges that fail by themselves, twice, in the order of the ranges.

    If the first half of a failed part can be read, the second half is not read as a whole. Reading
    costs at most about twice the ranges' length and a few single offsets for each that is found.

    Args:
        ranges: At most one per partition; reading all of them has failed.
        attempt: Reads a part of them, at most one piece per partition.
        most: Single offsets after which it ends; others may be left.
        is_late: Whether to end with what is found by now.

    Returns:
        Unreadable offsets, adjacent ones with the same reason joined; empty if what failed has
        passed.
    """
    found: list[Unreadable] = []
    failing = [tuple(ranges)]
    while failing and len(found) < most and not is_late():
        part = failing.pop()
        if sum(len(r.offsets) for r in part) == 1:
            reason = attempt(part) and attempt(part)
            if reason:
                found.append(Unreadable(part[0], reason))
            continue
        first, second = halves(part)
        if attempt(first) is None:
            failing.append(second)
            continue
        if attempt(second) is not None:
            failing.append(second)
        failing.append(first)
    return _joined(found)


def halves(
    part: Sequence[CoordinateRange],
) -> tuple[tuple[CoordinateRange, ...], tuple[CoordinateRange, ...]]:
    """The ranges as two parts of nearly the same number of offsets; at most one range is cut."""
    left = sum(len(r.offsets) for r in part) // 2
    first: list[CoordinateRange] = []
    second: list[CoordinateRange] = []
    for item in part:
        cut = item.start_offset + min(left, len(item.offsets))
        left -= cut - item.start_offset
        first.append(replace(item, end_offset=cut))
        second.append(replace(item, start_offset=cut))
    return tuple(r for r in first if len(r.offsets)), tuple(r for r in second if len(r.offsets))


def _joined(found: Sequence[Unreadable]) -> tuple[Unreadable, ...]:
    by_place: dict[tuple[CoordinateRange, str], list[Unreadable]] = {}
    for item in found:
        by_place.setdefault((_place(item.range), item.reason), []).append(item)
    return tuple(
        Unreadable(place.at(r), reason)
        for (place, reason), items in by_place.items()
        for r in union(item.range.offsets for item in items)
    )


def _place(at: CoordinateRange) -> CoordinateRange:
    return replace(at, start_offset=0, end_offset=0)


def unreadable_findings(found: Iterable[Unreadable], plan: BatchPlan) -> tuple[Finding, ...]:
    """One finding per partition; what a backfill cannot read does not stop the live lane."""
    by_place: dict[CoordinateRange, list[Unreadable]] = {}
    for item in found:
        by_place.setdefault(_place(item.range), []).append(item)
    return tuple(
        Finding(
            kind="unreadable_record",
            expected="records that Spark's Kafka source can read",
            actual="; ".join(sorted({item.reason for item in items})),
            topic=place.topic,
            topic_id=place.topic_id,
            partition=place.partition,
            intervals=union(item.range.offsets for item in items),
            backfill=plan.plan_id if plan.lane == "backfill" else None,
        )
        for place, items in by_place.items()
    )


def without_rows(found: Iterable[Unreadable], landed: Places) -> tuple[Unreadable, ...]:
    """What is left of unreadable offsets without those whose row stands in the table."""
    return tuple(replace(item, range=left) for item in found for left in landed.rest([item.range]))
