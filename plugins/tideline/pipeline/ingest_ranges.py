"""Step 4: have Spark land exactly the planned ranges, once, behind a fence.

Records that Spark cannot read: name them, and halt unless nothing is lost by that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tideline.errors import (
    ReplayUnavailable,
    ServiceAway,
    UnreadableRecords,
)
from tideline.failpoints import reach
from tideline.landing.attempts import (
    Attempt,
    begin_attempt,
    discarding,
    ingest_job,
    lacked_memory,
    submit,
)
from tideline.landing.closing import refuse_closed
from tideline.landing.context import RunContext, log, now
from tideline.landing.halting import halt, open_and_halt, open_incidents, triage_incidents
from tideline.landing.proof import (
    changes_after_read,
    find_plan_commit,
    foreign_changes,
    obstacles_to,
    proven_commit,
    unreadable_without_rows,
    verified_after_all,
)
from tideline.landing.table_commit import Landing, create_table, land, refuse_unserved
from tideline.ledger.state import LedgerState
from tideline.model.incident import Incident
from tideline.model.observation import TableObservation
from tideline.model.offsets import CoordinateRange, PartitionIdentity
from tideline.model.plan import BatchPlan, LandedRange
from tideline.model.run import RunRecord, TableCommit
from tideline.model.wording import first_few
from tideline.pipeline.decisions import accept_gaps
from tideline.rules.replay import unverified_rows_stand
from tideline.rules.unreadable import unreadable_findings


def ingest_ranges(run: RunContext) -> TableCommit | None:
    """Land the plan; None where there is nothing to land.

    An open plan whose rows the table proves is not read again (R3), unless an incident keeps them
    from being verified: then this is the second reading that a person asked for. What Spark has
    read lies beside the table; it is counted and checked, and only then put in place (R4).

    Records that Spark cannot read are read around where a good row stands, and once their loss is
    accepted. Where it had too little memory, the same plan is read once more, in one task.

    Raises:
        ResetDetected: The table is not the one that the ledger knows, or Spark cannot read records
            and nobody has decided about them.
        ReplayUnavailable: Kafka cannot serve the plan as it was; the table stays as it is.
        Halted: The table asks for Delta's own writer.
        VerificationFailed: Spark's files are not what it reported, or hold other rows.
        AttemptFenced: A newer attempt has written.
        StreamBusy: Somebody else writes the table, or has closed the run meanwhile.
        ServiceAway: Spark failed in a way that may pass.
    """
    met: list[CoordinateRange] = []
    in_one_task = False
    while True:  # each round leaves out offsets that no round before has left out, or needs less
        try:
            return _ingest(run, met, in_one_task=in_one_task)
        except UnreadableRecords as error:
            if lost := halt_on_unreadable(run, error):
                accept_gaps(run, lost)
            met += [item.range for item in error.unreadable]
        except ServiceAway as error:
            if in_one_task or not lacked_memory(error):
                raise
            log.warning("the plan is read again, in one task: %s", error)
            in_one_task = True


def _ingest(
    run: RunContext, met: Sequence[CoordinateRange], *, in_one_task: bool
) -> TableCommit | None:
    state, record, plan = run.frozen()
    if plan is None:
        return None
    if record.is_open and (proven := proven_commit(run, record, state.head)):
        held = state.incidents_of_plan(plan.plan_id)
        if _is_of_another_log(run, state, record):
            log.info("plan %s has no rows to verify, and its log has changed", plan.plan_id)
        elif not held or verified_after_all(run, state, record, proven, held) is not None:
            log.info("plan %s is in the table already, version %d", plan.plan_id, proven.version)
            return proven
    with run.ledger.lease("writer"):
        attempt = begin_attempt(run, state.control.ledger_id)
        refuse_closed(attempt.state, record)
        reach("ingest:fenced")
        table = _check_target(run, attempt.state, plan)
        landed = {} if table.version is None else run.table.landed(plan.ranges, table.version)
        if rest := _unreadable_rest(run, attempt.state, record, landed):
            return rest
        refuse_unserved(run, record, plan, landed)
        reach("ingest:leased")
        if not table.exists:
            table = _create_table(run, plan, attempt)
        if attempt.state.head.table_id is None:
            # Else another lane that lands first takes for known what others do here (R13).
            seen = (table.table_id, table.version)
            run.ledger.update(lambda s: s.with_head(s.head.that_knows(*seen)))
        made = _read_and_land(run, record, plan, attempt, table, met, in_one_task=in_one_task)
        reach("ingest:committed")
    reach("ingest:released")
    return made


def _is_of_another_log(run: RunContext, state: LedgerState, record: RunRecord) -> bool:
    """Whether a backfill's log has changed, and nothing is left of it to verify or to decide.

    Its rows were removed by a decision; or others have landed the same offsets since.
    """
    plan = record.plan
    assert plan is not None
    newest = run.table.observe().version
    if record.lane != "backfill" or newest is None:
        return False
    if unverified_rows_stand(state.head, run.table.landed(plan.ranges, newest)):
        return False
    return bool(changes_after_read(run, plan.on_cluster))


def _unreadable_rest(
    run: RunContext,
    state: LedgerState,
    record: RunRecord,
    landed: Mapping[PartitionIdentity, LandedRange],
) -> TableCommit | None:
    """The commit of an open plan that has lost rows since, where Kafka no longer serves the plan.

    What is left of it must not stay as it is (R6): verifying finds what is wrong, and a decision
    ends it.
    """
    plan = record.plan
    assert plan is not None
    if not record.is_open or not unverified_rows_stand(state.head, landed):
        return None
    commit = find_plan_commit(run, record, state.head)
    if commit is None or not obstacles_to(run, plan.on_cluster):
        return None
    log.warning("plan %s cannot be read again; its remaining rows are verified", plan.plan_id)
    return commit


def _read_and_land(
    run: RunContext,
    record: RunRecord,
    plan: BatchPlan,
    attempt: Attempt,
    table: TableObservation,
    met: Sequence[CoordinateRange],
    *,
    in_one_task: bool,
) -> TableCommit:
    """Have Spark write beside the table, count, and swap in; landing and replay are one way."""
    if table.version is None or table.partition_by is None:
        raise ServiceAway(f"table {run.stream.table.uri} is gone; nothing moved, run again")
    epochs = {r.identity: r.leader_epoch for r in plan.ranges}
    change = replace(attempt.change(plan.plan_id, plan.ranges), epochs=epochs)
    with discarding(change, run.table):
        by = table.partition_by
        job = ingest_job(run, attempt, change, plan, by, met, in_one_task=in_one_task)
        asked_ms = round(now().timestamp() * 1000)
        result = submit(run, job)
        if result.began_ms is not None and result.ended_ms is not None:
            change = replace(change, times=(asked_ms, result.began_ms, result.ended_ms))
        if refused := result.refused:
            log.info("records of erased keys that were not written: %d", len(refused))
            run.ledger.update(lambda s: replace(s, erasing=s.erasing.refusing(refused)))
        written = run.table.written(change, result)
        reach("ingest:written")
        erased = (*job.erased, *refused)
        seen = Landing(attempt.state, record, plan, change, written, job.unreadable, erased)
        return land(run, seen, after_version=table.version)


def _create_table(run: RunContext, plan: BatchPlan, attempt: Attempt) -> TableObservation:
    """An empty table: Spark would create one without our table properties."""
    create_table(run, attempt.state.control.ledger_id)
    return _check_target(run, attempt.state, plan)  # two streams may have meant the same folder


def _check_target(run: RunContext, state: LedgerState, plan: BatchPlan) -> TableObservation:
    """The table, after making sure that it is the one that the ledger knows (R13)."""
    table, findings = foreign_changes(run, state, plan)
    if findings:
        open_and_halt(run, state, findings)
    return table


def halt_on_unreadable(run: RunContext, error: UnreadableRecords) -> tuple[Incident, ...]:
    """Open incidents about records that Spark cannot read and that have no row, and halt.

    Args:
        error: What Spark found.

    Returns:
        The incidents, if a policy or a person accepts the loss of all of it already; none if a
        good row stands at each of these offsets: then nothing is lost.

    Raises:
        ResetDetected: A person has to decide.
        ReplayUnavailable: A closed run is read again. The table holds what it landed.
    """
    state, record, plan = run.frozen()
    if plan is None:
        raise error
    if not record.is_open:
        raise ReplayUnavailable(
            f"replay_unavailable: plan {plan.plan_id} of run {plan.run_id} cannot be read again:"
            f" {first_few(error.unreadable, separator='; ')}. The table stays as it is",
            plan_id=plan.plan_id,
        ) from error
    lost = unreadable_without_rows(run, plan, error.unreadable)
    if not lost:
        return ()
    findings = unreadable_findings(lost, plan)
    incidents = open_incidents(run, state, findings, plan)
    decided = triage_incidents(run, incidents).decided
    accepted = [i for i in decided if i.has_chosen("accept_loss")]
    if len(accepted) < len(incidents):
        halt(run, incidents)
    log.warning("left out and recorded as lost: %s", first_few(lost, separator="; "))
    return tuple(accepted)
