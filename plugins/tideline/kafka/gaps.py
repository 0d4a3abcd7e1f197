"""Why an offset has no row, as the headers of the log's record batches tell (KIP-98). Pure.

Two kinds of batches explain a missing row:

- A control batch is a commit or abort marker. It takes an offset and holds no record.
- A batch of an aborted transaction gives no record to a read_committed reader.

Everything else explains nothing: an offset that no batch covers, a batch that has lost records, a
record that is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tideline.model.observation import Gap, GapReason, merge_gaps
from tideline.model.offsets import Intervals, OffsetRange, intersect, subtract


@dataclass(frozen=True, slots=True)
class BatchHeader:
    """The header of one record batch (KIP-98).

    Args:
        base_offset: First offset (inclusive).
        last_offset: Last offset, **inclusive**, as Kafka stores it; `offsets` is half-open.
        records: Number of records that the batch still holds.
        producer_id: Id of the producer; -1 for one that is not idempotent.
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
    """An aborted transaction in a Fetch response; it ends at its producer's next abort marker."""

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
    batches: tuple[BatchHeader, ...]
    aborted: tuple[AbortedTransaction, ...] = ()


def explain_gaps(missing: Iterable[OffsetRange], fetched: FetchedBatches) -> tuple[Gap, ...]:
    """The reason for every missing offset inside the fetched batches.

    The list of aborted transactions of a Fetch response is complete for its own batches. So no
    state is carried from one response to the next, and batches between them may be skipped.

    Args:
        missing: The parts outside of the fetched batches are ignored.

    Returns:
        Gaps sorted by offset, with the reasons `marker`, `aborted`, `compacted_batch`, `record` and
        `hole`.
    """
    inside = [OffsetRange(fetched.fetch_offset, max(fetched.end_offset, fetched.fetch_offset))]
    wanted = intersect(missing, inside)
    pending = sorted(fetched.aborted, key=lambda a: a.first_offset)
    aborting: set[int] = set()
    gaps: list[Gap] = []
    seen: list[OffsetRange] = []
    cursor = _Cursor(wanted)
    for batch in fetched.batches:
        # A producer's earlier transactions may have been committed: it counts from here on.
        while pending and pending[0].first_offset <= batch.last_offset:
            aborting.add(pending.pop(0).producer_id)
        seen.append(batch.offsets)
        gaps += [Gap(r, _reason(batch, aborting)) for r in cursor.within(batch.offsets)]
        if batch.is_abort_marker:  # it ends one transaction of its producer
            aborting.discard(batch.producer_id)
    gaps += [Gap(r, "hole") for r in subtract(wanted, seen)]
    return merge_gaps(gaps)


def _reason(batch: BatchHeader, aborting: set[int]) -> GapReason:
    if batch.is_control:
        return "marker"
    if batch.is_transactional and batch.producer_id in aborting:
        return "aborted"
    return "record" if batch.records == len(batch.offsets) else "compacted_batch"


class _Cursor:
    """Walks sorted intervals and sorted batches together, in linear time."""

    def __init__(self, intervals: Intervals) -> None:
        self._intervals = intervals
        self._index = 0

    def within(self, bounds: OffsetRange) -> list[OffsetRange]:
        """The parts of the intervals inside the bounds; each call needs higher bounds."""
        parts = []
        while self._index < len(self._intervals):
            item = self._intervals[self._index]
            start = max(item.start_offset, bounds.start_offset)
            end = min(item.end_offset, bounds.end_offset)
            if start < end:
                parts.append(OffsetRange(start, end))
            if item.end_offset > bounds.end_offset:
                break
            self._index += 1
        return parts
