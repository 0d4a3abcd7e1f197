"""Step 5: reconcile the committed version with the plan, and the log with what was read."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import AttemptFenced, VerificationFailed
from tideline.failpoints import reach
from tideline.ledger.state import LedgerState
from tideline.model.plan import BatchPlan
from tideline.model.run import RunRecord, TableCommit
from tideline.model.verification import VerifiedRange
from tideline.pipeline.context import RunContext
from tideline.pipeline.deciding import GAPS, execute_on_plan
from tideline.pipeline.halting import halt, open_incidents, triage_incidents
from tideline.pipeline.landing import Assessment, assess, find_commit, foreign_changes


def verify_ranges(run: RunContext) -> tuple[TableCommit, tuple[VerifiedRange, ...]] | None:
    """The plan's commit and its ranges with rows and gaps; None where nothing was planned.

    Raises:
        VerificationFailed: There are rows too many.
        AttemptFenced: The table shows no commit of the plan.
        ResetDetected: Offsets are missing without a reason, or the log changed while it was read;
            the position does not move.
        ServiceAway: The cluster cannot say whether it did.
    """
    record, plan = run.frozen_plan()
    if plan is None:
        return None
    table_commit = find_commit(run, record)
    if table_commit is None:
        raise AttemptFenced(
            f"plan {plan.plan_id}: no commit of it in {run.stream.table.uri}; ingest it first",
            plan_id=plan.plan_id,
        )
    if record.is_open:
        _, foreign = foreign_changes(run, plan)
        if foreign:
            halt(run, open_incidents(run, foreign))
    found = assess(run, record, table_commit.version)
    if found.evidence and found.evidence != record.evidence:
        _keep(run, plan, found)
    if found.findings:
        found = _decided_or_halt(run, record, plan, found, table_commit)
    if found.mismatches:
        raise VerificationFailed(
            f"table version {table_commit.version} is not what plan {plan.plan_id} says: "
            + "; ".join(str(b) for b in found.mismatches)
            + ". The position did not move",
            plan_id=plan.plan_id,
            table_version=table_commit.version,
            mismatches=[str(b) for b in found.mismatches],
        )
    reach("verify:verified")
    return table_commit, found.verified


def _decided_or_halt(
    run: RunContext,
    record: RunRecord,
    plan: BatchPlan,
    found: Assessment,
    table_commit: TableCommit,
) -> Assessment:
    """Missing offsets may have a policy that accepts their loss; nothing else may go on here."""
    incidents = open_incidents(run, found.findings, plan)
    outlook = triage_incidents(run, incidents)
    gaps_only = all(i.finding.kind in GAPS for i in incidents)
    if not gaps_only or len(outlook.decided) < len(incidents) or not record.is_open:
        halt(run, incidents)
    execute_on_plan(run, outlook.decided)
    return assess(run, record, table_commit.version)


def _keep(run: RunContext, plan: BatchPlan, found: Assessment) -> None:
    """Evidence can expire: it goes into the plan's records before anything relies on it."""

    def keep(state: LedgerState) -> LedgerState:
        for record in state.runs.values():
            if record.plan is not None and record.plan.plan_id == plan.plan_id:
                state = state.with_run(replace(record, evidence=found.evidence))
        return state

    run.ledger.update(keep)
    reach("verify:kept")
