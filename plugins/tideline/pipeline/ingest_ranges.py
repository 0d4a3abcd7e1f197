"""Step 4: have Spark land exactly the planned ranges, once, behind a fence."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.errors import ReplayUnavailable
from tideline.failpoints import reach
from tideline.ledger.state import LedgerState
from tideline.model.observation import TableObservation
from tideline.model.offsets import PartitionIdentity
from tideline.model.plan import BatchPlan
from tideline.model.run import RunRecord, TableCommit
from tideline.model.verification import LandedRange
from tideline.pipeline.attempts import Attempt, begin_attempt, commit, read_job, submit
from tideline.pipeline.closing import give_up_backfill, refuse_closed
from tideline.pipeline.context import RunContext, log
from tideline.pipeline.incidents import open_and_halt
from tideline.pipeline.landed import (
    foreign_changes,
    obstacles_to,
    proven_commit,
    verified_after_all,
)
from tideline.rules.replay import shorter_than_landed, what_stays


def ingest_ranges(run: RunContext) -> TableCommit | None:
    """Land the plan; None where there is nothing to land.

    An open plan whose rows the table proves is not read again (R3), unless an incident keeps them
    from being verified: then this is the second reading that a person asked for. Where rows are
    landed already, what is read is staged, checked and counted, and only then put in place (R4).

    Raises:
        ResetDetected: The table is not the one that the ledger knows.
        ReplayUnavailable: Kafka cannot serve the plan as it was; the table stays as it is.
        AttemptFenced: A newer attempt has written.
        StreamBusy: Somebody else writes the table, or has closed the run meanwhile.
        ServiceAway: Spark failed in a way that may pass.
    """
    state, record, plan = run.frozen()
    if plan is None:
        return None
    if record.is_open and (proven := proven_commit(run, record)):
        held = state.incidents_of_plan(plan.plan_id)
        if not held or verified_after_all(run, state, record, proven, held) is not None:
            log.info("plan %s is in the table already, version %d", plan.plan_id, proven.version)
            return proven
    with run.ledger.lease("writer"):
        attempt = begin_attempt(run, state.control.ledger_id)
        refuse_closed(attempt.state, record)
        reach("ingest:fenced")
        table = _check_target(run, attempt.state, plan)
        landed = {} if table.version is None else run.table.landed(plan.ranges, table.version)
        _check_readable(run, record, plan, landed)
        reach("ingest:leased")
        if landed:
            made = _replace_landed(run, record, plan, attempt, landed, table)
        else:
            if not table.exists:
                table = _create_table(run, plan, attempt)
            made = _land(run, plan, attempt, table)
        reach("ingest:committed")
    reach("ingest:released")
    return made


def _land(
    run: RunContext, plan: BatchPlan, attempt: Attempt, table: TableObservation
) -> TableCommit:
    """Where nothing stands yet, the run adds Spark's data files itself (ADR 16)."""
    if table.partition_by is None:
        job = read_job(run, attempt, "replace_where", plan)
    else:
        job = read_job(run, attempt, "append_files", plan, partition_by=table.partition_by)
    return commit(run, job, after_version=table.version)


def _replace_landed(
    run: RunContext,
    record: RunRecord,
    plan: BatchPlan,
    attempt: Attempt,
    landed: Mapping[PartitionIdentity, LandedRange],
    table: TableObservation,
) -> TableCommit:
    """R4: a shorter or foreign re-read never replaces what is there."""
    run.table.remove_staging(attempt.token)  # what a killed attempt left
    staged = submit(run, read_job(run, attempt, "stage", plan))
    counts = {s.identity: s.rows for s in staged.staged} if staged is not None else {}
    shorter = shorter_than_landed(plan.ranges, counts, landed)
    if shorter:
        raise _unavailable(plan, shorter, landed)
    reach("ingest:staged")
    _check_readable(run, record, plan, landed)
    _check_target(run, run.ledger.read(), plan)  # reading took its time: ask the ledger again
    rows = (staged.rows or 0) if staged else 0
    job = read_job(run, attempt, "publish", plan, staged_rows=rows)
    made = commit(run, job, after_version=table.version)
    run.table.remove_staging(attempt.token)
    return made


def _create_table(run: RunContext, plan: BatchPlan, attempt: Attempt) -> TableObservation:
    """An empty table: Spark would create one without our table properties."""
    run.table.create(run.stream.stream, attempt.ledger_id, run.stream.table.partition_by)
    reach("ingest:created")
    return _check_target(run, attempt.state, plan)  # two streams may have meant the same folder


def _check_target(run: RunContext, state: LedgerState, plan: BatchPlan) -> TableObservation:
    """The table, after making sure that it is the one that the ledger knows (R13)."""
    table, findings = foreign_changes(run, state, plan)
    if findings:
        open_and_halt(run, state, findings)
    return table


def _check_readable(
    run: RunContext,
    record: RunRecord,
    plan: BatchPlan,
    landed: Mapping[PartitionIdentity, LandedRange],
) -> None:
    gone = [str(o) for o in obstacles_to(run, plan.on_cluster)]
    if gone:
        run.ledger.refuse_lost("writer")  # who took over may have superseded the plan
        give_up_backfill(run, record, gone)
        raise _unavailable(plan, gone, landed)


def _unavailable(
    plan: BatchPlan, reasons: list[str], landed: Mapping[PartitionIdentity, LandedRange]
) -> ReplayUnavailable:
    return ReplayUnavailable(
        f"replay_unavailable: plan {plan.plan_id} of run {plan.run_id} cannot be read as it was"
        f" frozen: {'; '.join(reasons)}. {what_stays(plan.lane, landed)}",
        plan_id=plan.plan_id,
        reasons=reasons,
    )
