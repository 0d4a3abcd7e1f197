"""Ask a person about findings whose policy is `approve`, and take the answer (R9)."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.incident import Decision, Incident
from tideline.pipeline.context import RunContext, now
from tideline.pipeline.deciding import refreshed_table_incidents
from tideline.pipeline.detect_earliest_reset import relevant_incidents, settled
from tideline.pipeline.halting import halt, triage_incidents
from tideline.pipeline.plan_offset_ranges import plan_offset_ranges


def ask(run: RunContext) -> tuple[Incident, ...]:
    """What has to be asked before this run can go on; empty where nothing has.

    Raises:
        ResetDetected: A finding's policy is `fail`.
        ServiceAway: The cluster does not give a settled answer.
    """
    record = run.record() or plan_offset_ranges(run)
    if record.status == "planned" and record.plan is not None:
        of_table = refreshed_table_incidents(run)
        found = (*of_table, *run.ledger.read().incidents_of_plan(record.plan.plan_id))
    elif record.status == "proposed":
        _, _, findings = settled(run, record)
        found = relevant_incidents(run, findings)
    else:
        return ()
    outlook = triage_incidents(run, found)
    if outlook.halting:
        halt(run, outlook.halting)
    if outlook.asking:
        run.ledger.update(lambda state: state.with_question(outlook.asking, run.run_id))
    return outlook.asking


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
