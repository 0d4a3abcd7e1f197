"""Move the head over a verified plan. Pure."""

from __future__ import annotations

from dataclasses import replace

from tideline.core.coverage import add_coverage, covered_until
from tideline.core.head import Head
from tideline.core.offsets import Place
from tideline.core.plan import BatchPlan
from tideline.core.positions import PartitionPosition
from tideline.core.result import Landing
from tideline.errors import StreamBusy


def advance_head(head: Head, plan: BatchPlan, landing: Landing) -> Head:
    """The head after a plan's rows have been verified in the table.

    A partition whose position is at or past the plan's end in the same generation stays where
    it is; one at the plan's start moves to its end. Anything else is refused. A backfill adds
    coverage and moves nothing.

    Args:
        head: The head as the ledger holds it now.
        plan: The frozen plan.
        landing: The verified commit.

    Raises:
        StreamBusy: The head is neither at the plan's start nor past its end.
    """
    if head.table_id not in (None, landing.table_id):
        raise StreamBusy(
            f"plan {plan.plan_id} landed in table {landing.table_id}, the ledger knows table"
            f" {head.table_id}; nothing moved"
        )
    positions = {(p.topic, p.partition): p for p in head.positions}
    moved = False
    if plan.lane == "live":
        coverage = {c.identity: c.intervals for c in head.coverage}
        for item in plan.ranges:
            key = (item.topic, item.partition)
            position = positions.get(key)
            if position is None or position.identity != item.identity:
                raise _refused(item, position)
            if position.next_offset >= item.end_offset:
                continue
            reached = covered_until(coverage.get(item.identity, ()), position.next_offset)
            if item.start_offset not in (position.next_offset, reached):
                raise _refused(item, position)
            positions[key] = replace(
                position,
                next_offset=item.end_offset,
                leader_epoch=item.leader_epoch,
                seen_end=item.high_watermark,
            )
            moved = True
    return replace(
        head,
        positions=tuple(positions[key] for key in sorted(positions)),
        coverage=add_coverage(head.coverage, ((r.identity, r.offsets) for r in plan.ranges)),
        table_id=landing.table_id,
        table_version=max(landing.version, head.table_version or 0),
        headroom=tuple(
            h for h in head.headroom if _is_at(positions, h.topic, h.partition, h.next_offset)
        ),
        live_runs=head.live_runs + (1 if moved else 0),
        bytes_per_record=landing.bytes / landing.rows if landing.rows else head.bytes_per_record,
    )


def _is_at(
    positions: dict[Place, PartitionPosition], topic: str, partition: int, next_offset: int
) -> bool:
    position = positions.get((topic, partition))
    return position is not None and position.next_offset == next_offset


def _refused(item: object, position: PartitionPosition | None) -> StreamBusy:
    at = "unknown" if position is None else f"at {position.next_offset} of {position.identity}"
    return StreamBusy(
        f"{item}: the head is {at}, neither at the plan's start nor past its end;"
        " look at `tideline ledger`, then run again",
        planned=str(item),
    )
