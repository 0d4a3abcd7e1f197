"""Rows of records that the log has lost since: they stay where a plan is landed (R4, R12)."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.ledger.state import LedgerState
from tideline.model.coverage import Intervals
from tideline.model.offsets import PartitionIdentity, TopicPartition
from tideline.model.plan import BatchPlan
from tideline.model.verdicts import GAP_CLASSES
from tideline.pipeline.context import RunContext, log
from tideline.pipeline.landed import changes_after_read
from tideline.rules.replay import of_this_log, only_copies


def rows_to_keep(
    run: RunContext,
    plan: BatchPlan,
    missing: Mapping[PartitionIdentity, Intervals],
) -> dict[PartitionIdentity, Intervals]:
    """Offsets of an open plan that were not read, and whose rows are good and the only copies.

    Their rows are verified, or were landed by an open plan whose log is still the same; and the
    log now has a hole there. To read again what others have landed would lose them.

    Args:
        run: This run; Kafka serves its plan.
        plan: What is landed.
        missing: Its offsets that have a row, and were not read; not empty.

    Raises:
        ServiceAway: The cluster does not give a stable answer.
    """
    state = run.ledger.read()
    same_log = [p for p in _open_plans(state) if not changes_after_read(run, p.on_cluster)]
    good = of_this_log(missing, state.head, same_log)
    places: dict[TopicPartition, Intervals] = {
        r.topic_partition: good[r.identity] for r in plan.ranges if r.identity in good
    }
    shown = run.kafka.examine(places, plan.isolation_level) if places else {}
    kept = {
        r.identity: copies
        for r in plan.ranges
        if (copies := only_copies(good.get(r.identity, ()), shown.get(r.topic_partition, ())))
    }
    for identity, copies in kept.items():
        log.warning(
            "%s: the log has lost %s; their rows stay", identity, ", ".join(map(str, copies))
        )
    return kept


def _open_plans(state: LedgerState) -> list[BatchPlan]:
    """Plans whose rows no incident puts in doubt."""
    return [
        r.plan
        for r in state.runs.values()
        if r.is_open
        and r.plan is not None
        and all(i.finding.kind in GAP_CLASSES for i in state.incidents_of_plan(r.plan.plan_id))
    ]
