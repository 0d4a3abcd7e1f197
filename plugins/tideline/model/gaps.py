"""Why an offset inside a range has no row: the reasons, and what a log shows of itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from tideline.model.offsets import OffsetRange

GapReason = Literal[
    "marker",
    "aborted",
    "transactional",
    "compacted",
    "accepted",
    "hole",
    "compacted_batch",
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
    "compacted_batch": "its batch has lost records, as compaction does",
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
class FetchedBatches:
    """One Fetch answer: whole batches in a row, from `fetch_offset` up to `end_offset` (exclusive).

    Args:
        aborted: Every aborted transaction that overlaps the stretch.
    """

    fetch_offset: int
    end_offset: int
    batches: tuple[Batch, ...]
    aborted: tuple[AbortedTransaction, ...] = ()


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
