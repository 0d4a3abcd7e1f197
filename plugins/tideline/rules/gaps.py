"""Why an offset inside a range has no row: what the log itself shows there. Pure.

The log is a sequence of record batches (KIP-98). A control batch is a commit or abort marker: it
takes an offset and gives no record. A transactional batch of a producer whose transaction was
aborted gives no record to a read_committed reader. Everything else that lacks a row is no
evidence: an offset that no batch covers, a batch that has lost records, a record that is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tideline.model.coverage import Intervals, intersect, subtract, union
from tideline.model.gaps import Batch, FetchedBatches, Gap, GapReason, merge_gaps
from tideline.model.offsets import OffsetRange


def explain(missing: Iterable[OffsetRange], stretch: FetchedBatches) -> tuple[Gap, ...]:
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
    return "record" if batch.records == len(batch.offsets) else "compacted_batch"


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


def assign(missing: Intervals, known: Sequence[Gap]) -> tuple[tuple[Gap, ...], Intervals]:
    """Give missing offsets the reasons that are known already.

    Returns:
        The gaps that are explained, and what is still to be looked at.
    """
    found = [Gap(part, gap.reason) for gap in known for part in intersect(missing, [gap.offsets])]
    return merge_gaps(found), subtract(missing, union(g.offsets for g in found))
