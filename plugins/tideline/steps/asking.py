"""Ask a person about findings whose policy is `approve`, and take the answer (R9)."""

from __future__ import annotations

from collections.abc import Mapping

from tideline.core.incident import Decision, Incident
from tideline.core.ledger_state import LedgerState
from tideline.steps.context import RunContext, now
from tideline.steps.detect_earliest_reset import relevant_incidents, settled
from tideline.steps.halting import halt, outlook_of
from tideline.steps.plan_offset_ranges import plan_offset_ranges


def ask(run: RunContext) -> tuple[Incident, ...]:
    """What has to be asked before this run can go on; empty where nothing has.

    Raises:
        ResetDetected: A finding's policy is `fail`.
        ServiceAway: The cluster does not give a settled answer.
    """
    record = run.record() or plan_offset_ranges(run)
    if record.status == "planned" and record.plan is not None:
        state = run.ledger.read()
        found = (*state.incidents_of_table(), *state.incidents_of_plan(record.plan.plan_id))
    elif record.status == "proposed":
        _, _, findings = settled(run, record)
        found = relevant_incidents(run, findings)
    else:
        return ()
    outlook = outlook_of(run, found)
    if outlook.halting:
        halt(run, outlook.halting)
    if outlook.asking:
        run.ledger.update(lambda state: state.with_question(outlook.asking, run.run_id))
    return outlook.asking


def asked_incidents(run: RunContext) -> tuple[Incident, ...]:
    """The open incidents that this run's form asks about and nobody has answered elsewhere."""
    return _asked(run.ledger.read(), run.run_id)


def _asked(state: LedgerState, run_id: str) -> tuple[Incident, ...]:
    return tuple(i for i in state.control.incidents if i.asked_in == run_id and not i.is_decided)


def answer(run: RunContext, choices: Mapping[str, str], *, by: str, reason: str) -> None:
    """Record a decision for every incident that was asked about.

    Args:
        run: This run.
        choices: The decision per class.
        by: Who answered.
        reason: In their words.
    """
    at = now()

    def record(state: LedgerState) -> LedgerState:
        for incident in _asked(state, run.run_id):
            choice = choices.get(incident.finding.kind, "fail")
            state = state.with_decision(incident.incident_id, Decision(choice, by, at, reason))
        return state

    run.ledger.update(record)
