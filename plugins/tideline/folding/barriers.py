"""Changes that say that all rows are gone: whether they have a place, which is the last. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tideline.model.current import Barrier, FoldPlan, FoldRefusal
from tideline.model.offsets import partition_counts


def unplaced(plan: FoldPlan, topic_ids: Sequence[str]) -> tuple[FoldRefusal, ...]:
    """Why truncates of these topic ids end nothing for certain; nothing if they do.

    By offsets one says which changes of its own partition it ends, and none of another one's.
    Partitions count, not records: those of another one may come at any time.
    """
    if plan.order == "time":
        return ()
    known, covered = dict(plan.partitions), partition_counts(r.identity for r in plan.covered)
    counts = [max(known.get(i, 1), covered.get(i, 1)) for i in sorted(topic_ids)]
    least = 1 if plan.order == "sequence" else 2  # by a declared order none has a place
    return tuple(
        FoldRefusal("truncated", f"all rows went (op t), in a topic of {n} partition{'s'[: n - 1]}")
        for n in counts
        if n >= least
    )


def later_of(plan: FoldPlan, one: Barrier, other: Barrier | None) -> Barrier:
    """The later one of two."""
    return one if other is None else max(one, other, key=lambda b: _place(plan, b))


def _place(plan: FoldPlan, barrier: Barrier) -> tuple[Any, ...]:
    """As `order_of` orders changes: by offsets, two of one incarnation are of one partition."""
    era, place = plan.incarnations.of(barrier.identity), (barrier.generation, barrier.offset)
    return (era, barrier.timestamp, *place) if plan.order == "time" else (era, *place)
