"""Step 5: reconcile the committed version with the plan, and the log with what was read."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import AttemptFenced, VerificationFailed
from tideline.failpoints import reach
from tideline.ledger.state import LedgerState
from tideline.model.incident import Finding
from tideline.model.plan import BatchPlan
from tideline.model.run import PartitionEvidence, RunRecord, TableCommit
from tideline.model.verdicts import GAP_CLASSES
from tideline.model.verification import VerifiedRange
from tideline.pipeline.closing import refuse_closed
from tideline.pipeline.context import RunContext, now
from tideline.pipeline.decisions import accept_gaps
from tideline.pipeline.incidents import halt, open_and_halt, open_incidents, triage_incidents
from tideline.pipeline.landed import check_log, count_rows, find_commit, foreign_changes


def verify_ranges(run: RunContext) -> tuple[TableCommit, tuple[VerifiedRange, ...]] | None:
    """The plan's commit and its ranges with rows and gaps; None where nothing was planned.

    What was verified goes into the run's record, for `advance_offsets`.

    Raises:
        VerificationFailed: There are rows too many.
        AttemptFenced: The table shows no commit of the plan.
        ResetDetected: Offsets are missing without a reason, or the log changed while it was read;
            the position does not move.
        ServiceAway: The cluster cannot say whether it did.
    """
    state, record, plan = run.frozen()
    if plan is None:
        return None
    commit = find_commit(run, record)
    if commit is None:
        raise AttemptFenced(
            f"plan {plan.plan_id}: no commit of it in {run.stream.table.uri}; ingest it first",
            plan_id=plan.plan_id,
        )
    if record.is_open and (foreign := foreign_changes(run, state, plan)[1]):
        open_and_halt(run, state, foreign)
    counted = count_rows(run, record, plan.ranges, state.head)
    findings, counted = check_log(run, record, commit, counted)
    if findings:
        _keep(run, record, counted.evidence)
        state = _accept_or_halt(run, state, record, plan, findings)
        record = run.record_in(state) or record  # with the evidence: the log is not asked again
        counted = count_rows(run, record, plan.ranges, state.head)
    if counted.mismatches:
        _keep(run, record, counted.evidence)
        raise VerificationFailed(
            f"table version {counted.version} is not what plan {plan.plan_id} says: "
            + "; ".join(str(m) for m in counted.mismatches)
            + ". The position did not move",
            plan_id=plan.plan_id,
            table_version=counted.version,
            mismatches=[str(m) for m in counted.mismatches],
        )
    if (commit, counted.verified) != (record.table_commit, record.verified):
        _keep(run, record, counted.evidence, commit, counted.verified)
    reach("verify:verified")
    return commit, counted.verified


def _accept_or_halt(
    run: RunContext,
    state: LedgerState,
    record: RunRecord,
    plan: BatchPlan,
    findings: tuple[Finding, ...],
) -> LedgerState:
    """Missing offsets may have a policy that accepts their loss; nothing else may go on here."""
    incidents = open_incidents(run, state, findings, plan)
    decided = triage_incidents(run, incidents).decided
    gaps_only = all(i.finding.kind in GAP_CLASSES for i in incidents)
    if not gaps_only or len(decided) < len(incidents) or not record.is_open:
        halt(run, incidents)
    return accept_gaps(run, decided)


def _keep(
    run: RunContext,
    verifying: RunRecord,
    evidence: tuple[PartitionEvidence, ...],
    commit: TableCommit | None = None,
    verified: tuple[VerifiedRange, ...] = (),
) -> None:
    """Put evidence and what was verified into this run's record, and the plan's other open ones.

    Evidence can expire: it is kept also where the plan does not verify. There an open record
    forgets an earlier verification, so that nobody advances by it; a closed one keeps its own.

    Raises:
        StreamBusy: Somebody has closed the run meanwhile.
    """
    plan = verifying.plan
    assert plan is not None

    def keep(state: LedgerState) -> LedgerState:
        refuse_closed(state, verifying)
        executing = {verifying.run_id: verifying} | dict(state.runs)
        for record in executing.values():
            if record.plan is None or record.plan.plan_id != plan.plan_id:
                continue
            learned = replace(record, evidence=evidence)
            if commit is not None or record.is_open:
                learned = replace(learned, table_commit=commit, verified=verified)
            if learned != record:
                state = state.with_run(replace(learned, updated_at=now()))
        return state

    reach("verify:keeping")
    run.ledger.update(keep)
    reach("verify:kept")
