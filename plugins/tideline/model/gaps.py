"""Why an offset has no row: the possible reasons, and the batches that give evidence of them."""

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
"""Reasons that explain a missing offset: two by evidence in the log, two by the stream file's
`gaps`, and `accepted` by a decision."""


REASONS: dict[GapReason, str] = {
    "marker": "a commit or abort marker",
    "aborted": "a record of an aborted transaction",
    "transactional": "admitted by gaps: transactional",
    "compacted": "admitted by gaps: compacted",
    "accepted": "a decision accepted the loss",
    "hole": "no batch of the log covers it",
    "compacted_batch": "its batch has lost records, as in a compacted log",
    "record": "the log holds a record there",
    "expired": "the log starts later now: it can no longer be read",
    "refused": "gaps: refuse admits none",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets without a row, and the reason."""

    offsets: OffsetRange
    reason: GapReason


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of one record batch (KIP-98).

    Args:
        base_offset: First offset (inclusive).
        last_offset: Last offset, **inclusive**, as Kafka stores it; `offsets` is half-open.
        records: Number of records that the batch still holds.
        producer_id: Id of the producer; -1 for one that is not idempotent.
        is_control: The batch is a transaction marker.
        is_transactional: The batch belongs to a transaction.
        is_abort_marker: The batch is the marker that aborts a transaction.
        first_timestamp_ms: Timestamp of the first record, in milliseconds; -1 if unknown.
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
        """The offsets that the batch covers, end exclusive."""
        return OffsetRange(self.base_offset, self.last_offset + 1)


@dataclass(frozen=True, slots=True)
class AbortedTransaction:
    """An aborted transaction in a Fetch response; it ends at its producer's next abort marker.

    Args:
        producer_id: Id of the producer.
        first_offset: First offset of the transaction (inclusive).
    """

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """The whole batches of one Fetch response.

    Args:
        fetch_offset: First offset that was asked for (inclusive).
        end_offset: End of the last batch (exclusive).
        batches: In the order of the log. The first may begin below `fetch_offset`.
        aborted: Every aborted transaction that overlaps these batches.
    """

    fetch_offset: int
    end_offset: int
    batches: tuple[Batch, ...]
    aborted: tuple[AbortedTransaction, ...] = ()


def merge_gaps(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """The gaps sorted by offset, adjacent ones with the same reason joined, empty ones dropped."""
    merged: list[Gap] = []
    for gap in sorted(gaps, key=lambda g: g.offsets):
        last = merged[-1] if merged else None
        start, end = gap.offsets.start_offset, gap.offsets.end_offset
        if last and (last.reason, last.offsets.end_offset) == (gap.reason, start):
            merged[-1] = Gap(OffsetRange(last.offsets.start_offset, end), gap.reason)
        elif len(gap.offsets):
            merged.append(gap)
    return tuple(merged)
