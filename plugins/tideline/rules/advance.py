"""Move the head over a verified plan. Pure."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import StreamBusy
from tideline.model.coverage import add_coverage, covered_until
from tideline.model.head import Head, PartitionPosition
from tideline.model.offsets import TopicPartition
from tideline.model.plan import BatchPlan, PlannedRange
from tideline.model.run import TableCommit


def advance_head(head: Head, plan: BatchPlan, table_commit: TableCommit) -> Head:
    """The head after a plan's rows have been verified in the table.

    A partition whose position is at or past the plan's end in the same generation stays where
    it is; one at the plan's start moves to its end. Anything else is refused. A backfill adds
    coverage and moves nothing; beyond the head it leaves the newest epoch known, so that a
    truncation of what it landed does not go unnoticed (R12).

    Args:
        head: The head as the ledger holds it now.
        plan: The frozen plan.
        table_commit: The verified commit.

    Raises:
        StreamBusy: The head is neither at the plan's start nor past its end.
    """
    if head.table_id not in (None, table_commit.table_id):
        raise StreamBusy(
            f"plan {plan.plan_id} landed in table {table_commit.table_id}, the ledger knows table"
            f" {head.table_id}; nothing moved"
        )
    positions = {p.topic_partition: p for p in head.positions}
    moved = False
    if plan.lane == "live":
        coverage = {c.identity: c.intervals for c in head.coverage}
        for item in plan.ranges:
            key = item.topic_partition
            position = positions.get(key)
            if position is None or position.identity != item.identity:
                raise _refused(item, position)
            if position.next_offset >= item.end_offset:
                continue
            reached = covered_until(coverage.get(item.identity, ()), position.next_offset)
            if item.start_offset not in (position.next_offset, reached):
                raise _refused(item, position)
            positions[key] = _seen(replace(position, next_offset=item.end_offset), item)
            moved = True
    else:
        for item in plan.ranges:
            position = positions.get(item.topic_partition)
            if position is None or position.identity != item.identity:
                continue  # an incarnation that the live lane has left
            if item.end_offset > position.next_offset:
                positions[item.topic_partition] = _seen(position, item)
    return replace(
        head,
        positions=tuple(positions[key] for key in sorted(positions)),
        coverage=add_coverage(head.coverage, ((r.identity, r.offsets) for r in plan.ranges)),
        table_id=table_commit.table_id,
        table_version=max(table_commit.version, head.table_version or 0),
        headroom=tuple(
            h for h in head.headroom if _is_at(positions, h.topic, h.partition, h.next_offset)
        ),
        live_runs=head.live_runs + (1 if moved else 0),
        bytes_per_record=table_commit.bytes / table_commit.rows
        if table_commit.rows
        else head.bytes_per_record,
    )


def _seen(position: PartitionPosition, item: PlannedRange) -> PartitionPosition:
    """With the newest epoch of the two, and as far as the log was seen to reach in it."""
    known = (-1 if position.leader_epoch is None else position.leader_epoch, position.proven_end)
    found = (-1 if item.leader_epoch is None else item.leader_epoch, item.high_watermark)
    epoch, end = max(known, found)
    return replace(position, leader_epoch=None if epoch < 0 else epoch, seen_end=end)


def _is_at(
    positions: dict[TopicPartition, PartitionPosition], topic: str, partition: int, next_offset: int
) -> bool:
    position = positions.get(TopicPartition(topic, partition))
    return position is not None and position.next_offset == next_offset


def _refused(item: object, position: PartitionPosition | None) -> StreamBusy:
    at = "unknown" if position is None else f"at {position.next_offset} of {position.identity}"
    return StreamBusy(
        f"{item}: the head is {at}, neither at the plan's start nor past its end;"
        " look at `tideline ledger`, then run again",
        planned=str(item),
    )
