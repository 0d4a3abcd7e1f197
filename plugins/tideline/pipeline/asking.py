"""Ask a person about findings whose policy is `approve`, and take the answer (R9)."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.incident import Decision, Incident
from tideline.pipeline.context import RunContext, now
from tideline.pipeline.decisions import standing_table_incidents
from tideline.pipeline.incidents import halt, relevant_incidents, triage_incidents
from tideline.pipeline.proposing import propose, stable_proposal
from tideline.pipeline.recovery import recover


def ask(run: RunContext) -> tuple[Incident, ...]:
    """What has to be asked before this run can go on; empty where nothing has.

    Raises:
        ResetDetected: A finding's policy is `fail`.
        ServiceAway: The cluster does not give a stable answer.
    """
    state, record = run.snapshot()
    if record is None or (record.is_planned_anew and record.lane == "live"):
        state, record = propose(run, recover(run, state), record)
    if record.status == "planned" and record.plan is not None:
        state, of_table = standing_table_incidents(run, state, record.plan)
        incidents = (*of_table, *state.incidents_of_plan(record.plan.plan_id))
    elif record.status == "proposed":
        state, _, findings = stable_proposal(run, state, record)
        incidents = relevant_incidents(run, state, findings)
    else:
        return ()
    triage = triage_incidents(run, incidents)
    if triage.halting:
        halt(run, triage.halting)
    if triage.asking:
        run.ledger.update(lambda latest: latest.with_question(triage.asking, run.run_id))
    return triage.asking


def asked_incidents(ledger: Ledger, run_id: str) -> tuple[Incident, ...]:
    """The open incidents that a run's form asks about and nobody has answered elsewhere."""
    return _asked(ledger.read(), run_id)


def _asked(state: LedgerState, run_id: str) -> tuple[Incident, ...]:
    return tuple(i for i in state.control.incidents if i.asked_in == run_id and not i.is_decided)


def answer(
    ledger: Ledger, run_id: str, choices: Mapping[str, str], *, by: str, reason: str
) -> None:
    """Record a decision for every incident that was asked about; needs no lease.

    Args:
        ledger: The stream's.
        run_id: The run that asked.
        choices: The decision per class.
        by: Who answered.
        reason: In their words.
    """
    at = now()

    def record(state: LedgerState) -> LedgerState:
        for incident in _asked(state, run_id):
            choice = choices.get(incident.finding.kind, "fail")
            state = state.with_decision(incident.incident_id, Decision(choice, by, at, reason))
        return state

    ledger.update(record)
