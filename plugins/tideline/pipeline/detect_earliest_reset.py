"""Step 2: hold the ledger against the cluster; freeze the plan if nothing speaks against it."""

from __future__ import annotations

from tideline.ledger.state import LedgerState
from tideline.model.run import RunRecord
from tideline.pipeline.context import RunContext, log
from tideline.pipeline.freezing import freeze_backfill, freeze_live
from tideline.pipeline.incidents import halt, relevant_incidents, triage_incidents
from tideline.pipeline.proposing import propose, stable_proposal
from tideline.pipeline.recovery import recover


def detect_earliest_reset(run: RunContext) -> RunRecord:
    """The run's record: frozen (R1), nothing to do, or still proposed where a decision comes first.

    Raises:
        ResetDetected: Something was found that nobody has decided and no policy lets pass; an
            incident is open and no position moved.
        WindowUnavailable: Part of what a backfill asks for has expired.
        ServiceAway: The observations of the cluster did not agree in time.
    """
    state, record = run.snapshot()
    if record is None or record.is_planned_anew:  # another run's proposal has replaced this one's
        state, record = propose(run, recover(run, state), record)
    if record.status != "proposed":
        if record.status == "superseded":
            log.info("run %s was superseded by %s", run.run_id, record.superseded_by)
        _attach(run, state, record)
        return record
    state, proposal, findings = stable_proposal(run, state, record)
    if run.request.lane == "backfill":
        return freeze_backfill(run, state, proposal, findings)
    triage = triage_incidents(run, relevant_incidents(run, state, findings))
    if triage.halting:
        halt(run, triage.halting)
    if triage.asking or triage.decided:
        for incident in (*triage.asking, *triage.decided):
            log.warning("left to resolve_reset: %s", incident)
        return record
    if not triage.left_open:
        log.info("no findings")
    return freeze_live(run, state, proposal, triage.left_open)


def _attach(run: RunContext, state: LedgerState, record: RunRecord) -> None:
    """R8: a run that came upon another's halted plan halts as well, and opens nothing new."""
    if record.status != "planned" or record.finishes is None or record.plan is None:
        return
    triage = triage_incidents(run, state.incidents_of_plan(record.plan.plan_id))
    if triage.halting or triage.left_open:
        halt(run, (*triage.halting, *triage.left_open))
