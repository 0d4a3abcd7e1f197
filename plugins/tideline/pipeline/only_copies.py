"""Rows of records that nobody can read any more: they stay where a plan is landed (R4, R12)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tideline.ledger.state import LedgerState
from tideline.model.coverage import Intervals, intersect, union
from tideline.model.offsets import CoordinateRange, PartitionIdentity, TopicPartition
from tideline.model.plan import BatchPlan
from tideline.model.unreadable import Unreadable
from tideline.model.verdicts import GAP_CLASSES
from tideline.pipeline.context import RunContext, log
from tideline.pipeline.landed import changes_after_read
from tideline.rules.replay import of_this_log, only_copies
from tideline.rules.unreadable import by_log, without_rows


def rows_to_keep(
    run: RunContext,
    plan: BatchPlan,
    missing: Mapping[PartitionIdentity, Intervals],
    left_out: Iterable[CoordinateRange] = (),
) -> dict[PartitionIdentity, Intervals]:
    """Offsets of an open plan that were not read, and whose rows are good and the only copies.

    Their rows are verified, or were landed by an open plan whose log is still the same; and the
    log now has a hole there, or Spark cannot read it. To read again what others have landed would
    lose them.

    Args:
        run: This run; Kafka serves its plan.
        plan: What is landed.
        missing: Its offsets that have a row, and were not read; not empty.
        left_out: What Spark was told not to read, since it cannot.

    Raises:
        ServiceAway: The cluster does not give a stable answer.
    """
    good = _good(run, missing)
    unreadable = by_log(left_out)
    places: dict[TopicPartition, Intervals] = {
        r.topic_partition: good[r.identity] for r in plan.ranges if r.identity in good
    }
    shown = run.kafka.examine(places, plan.isolation_level) if places else {}
    kept = {
        r.identity: copies
        for r in plan.ranges
        if (
            copies := union(
                (
                    *only_copies(good.get(r.identity, ()), shown.get(r.topic_partition, ())),
                    *intersect(good.get(r.identity, ()), unreadable.get(r.identity, ())),
                )
            )
        )
    }
    for identity, copies in kept.items():
        log.warning(
            "%s: %s cannot be read again; their rows stay", identity, ", ".join(map(str, copies))
        )
    return kept


def unreadable_without_rows(
    run: RunContext, plan: BatchPlan, found: tuple[Unreadable, ...]
) -> tuple[Unreadable, ...]:
    """The offsets that Spark cannot read and at which no good row stands: their loss is a loss.

    Args:
        run: This run.
        plan: What is landed; its run is open.
        found: What Spark named.

    Raises:
        ServiceAway: The cluster does not give a stable answer.
    """
    version = run.table.observe().version
    if version is None:
        return found
    landed = run.table.landed(plan.ranges, version)
    wanted = by_log(item.range for item in found)
    standing = {
        i: part
        for i, held in landed.items()
        if (part := intersect(wanted.get(i, ()), held.offsets))
    }
    return without_rows(found, _good(run, standing)) if standing else found


def _good(
    run: RunContext, offsets: Mapping[PartitionIdentity, Intervals]
) -> dict[PartitionIdentity, Intervals]:
    """The offsets whose rows are verified, or of an open plan whose log is still the same."""
    state = run.ledger.read()
    same_log = [p for p in _open_plans(state) if not changes_after_read(run, p.on_cluster)]
    return of_this_log(offsets, state.head, same_log)


def _open_plans(state: LedgerState) -> list[BatchPlan]:
    """Plans whose rows no incident puts in doubt."""
    return [
        r.plan
        for r in state.runs.values()
        if r.is_open
        and r.plan is not None
        and all(i.finding.kind in GAP_CLASSES for i in state.incidents_of_plan(r.plan.plan_id))
    ]
