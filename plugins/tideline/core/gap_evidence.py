"""Why an offset inside a range has no row: what the log itself shows there. Pure.

The log is a sequence of record batches (KIP-98). A control batch is a commit or abort marker: it
takes an offset and gives no record. A transactional batch of a producer whose transaction was
aborted gives no record to a read_committed reader. Everything else that lacks a row is no
evidence: an offset that no batch covers, a batch that has lost records, a record that is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tideline.core.coverage import Intervals, intersect, subtract, union
from tideline.core.offsets import OffsetRange

GapReason = Literal[
    "marker",
    "aborted",
    "transactional",
    "compacted",
    "accepted",
    "hole",
    "thinned",
    "record",
    "expired",
    "refused",
]

ADMITTED: frozenset[GapReason] = frozenset(
    {"marker", "aborted", "transactional", "compacted", "accepted"}
)
"""Reasons that excuse a missing offset; the last three by declaration or decision."""

REASONS: dict[GapReason, str] = {
    "marker": "a commit or abort marker",
    "aborted": "a record of an aborted transaction",
    "transactional": "admitted by gaps: transactional",
    "compacted": "admitted by gaps: compacted",
    "accepted": "a decision accepted the loss",
    "hole": "no batch of the log covers it",
    "thinned": "its batch has lost records, as compaction does",
    "record": "the log holds a record there",
    "expired": "the log starts later by now: it can no longer be looked at",
    "refused": "gaps: refuse admits none",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets without a row, and why they have none."""

    offsets: OffsetRange
    reason: GapReason


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of one record batch; both offsets are inclusive, as Kafka stores them.

    Args:
        records: How many records it still holds.
        is_abort_marker: A control batch that ends an aborted transaction.
        first_timestamp_ms: Of its first record; -1 if unknown.
    """

    base_offset: int
    last_offset: int
    records: int
    producer_id: int = -1
    is_control: bool = False
    is_transactional: bool = False
    is_abort_marker: bool = False
    first_timestamp_ms: int = -1

    @property
    def offsets(self) -> OffsetRange:
        """The offsets that it covers, end exclusive."""
        return OffsetRange(self.base_offset, self.last_offset + 1)


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """What a Fetch answer says of an aborted transaction: it ends at its producer's next marker."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """One Fetch answer: whole batches in a row, from `fetch_offset` up to `end_offset` (exclusive).

    Args:
        aborted: Every aborted transaction that overlaps the stretch.
    """

    fetch_offset: int
    end_offset: int
    batches: tuple[Batch, ...]
    aborted: tuple[AbortedTransaction, ...] = ()


def explain(missing: Iterable[OffsetRange], stretch: Stretch) -> tuple[Gap, ...]:
    """The reason for every missing offset inside a stretch of the log.

    A stretch stands for itself: its list of aborted transactions is complete, so nothing is
    carried over from one to the next, between which anything may have been skipped.
    """
    inside = [OffsetRange(stretch.fetch_offset, max(stretch.end_offset, stretch.fetch_offset))]
    wanted = intersect(missing, inside)
    pending = sorted(stretch.aborted, key=lambda a: a.first_offset)
    aborting: set[int] = set()
    gaps: list[Gap] = []
    seen: list[OffsetRange] = []
    cursor = _Cursor(wanted)
    for batch in stretch.batches:
        while pending and pending[0].first_offset <= batch.last_offset:
            aborting.add(pending.pop(0).producer_id)
        seen.append(batch.offsets)
        gaps += [Gap(r, _reason(batch, aborting)) for r in cursor.within(batch.offsets)]
        if batch.is_abort_marker:
            aborting.discard(batch.producer_id)
    gaps += [Gap(r, "hole") for r in subtract(wanted, seen)]
    return merge_gaps(gaps)


def _reason(batch: Batch, aborting: set[int]) -> GapReason:
    if batch.is_control:
        return "marker"
    if batch.is_transactional and batch.producer_id in aborting:
        return "aborted"
    return "record" if batch.records == len(batch.offsets) else "thinned"


class _Cursor:
    """Walks sorted intervals along with sorted batches, so that a pass stays linear."""

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        self._index = 0

    def within(self, bounds: OffsetRange) -> list[OffsetRange]:
        """The parts of the intervals inside the bounds; bounds must come in order."""
        found = []
        while self._index < len(self._intervals):
            item = self._intervals[self._index]
            start = max(item.start_offset, bounds.start_offset)
            end = min(item.end_offset, bounds.end_offset)
            if start < end:
                found.append(OffsetRange(start, end))
            if item.end_offset > bounds.end_offset:
                break
            self._index += 1
        return found


def merge_gaps(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """Sorted, with neighbours of the same reason joined."""
    merged: list[Gap] = []
    for gap in sorted(gaps, key=lambda g: g.offsets):
        last = merged[-1] if merged else None
        start, end = gap.offsets.start_offset, gap.offsets.end_offset
        if last and (last.reason, last.offsets.end_offset) == (gap.reason, start):
            merged[-1] = Gap(OffsetRange(last.offsets.start_offset, end), gap.reason)
        elif len(gap.offsets):
            merged.append(gap)
    return tuple(merged)


def assign(missing: Intervals, known: Sequence[Gap]) -> tuple[tuple[Gap, ...], Intervals]:
    """Give missing offsets the reasons that are known already.

    Returns:
        The gaps that are explained, and what is still to be looked at.
    """
    found = [Gap(part, gap.reason) for gap in known for part in intersect(missing, [gap.offsets])]
    return merge_gaps(found), subtract(missing, union(g.offsets for g in found))
