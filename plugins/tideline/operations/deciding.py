"""What people decide about open incidents, by a command or in a form; a run carries it out (R9)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tideline.errors import BadInput
from tideline.failpoints import reach
from tideline.landing.context import now
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.incident import Decision, Incident
from tideline.model.wording import first_few, not_among, reason_problem, shown
from tideline.rules.incidents import decided_together

_SHOWN = 20


def decide(
    ledger: Ledger, incident_ids: Collection[str], decision: Decision, alike: int | None = None
) -> tuple[Incident, ...]:
    """Record one decision about open incidents, about all of them or about none.

    Args:
        incident_ids: Of the incidents; they may be of several classes that share the choice.
        alike: Those that are like one of them are meant as well, and there are so many in all, by
            whoever decides; None: none but them.

    Returns:
        The incidents with the decision.

    Raises:
        BadInput: One of them is not open, or allows no such choice; the reason is none; or there
            are more or fewer that are alike: nobody has seen all of them.
    """
    if problem := reason_problem(decision.reason, "the reason for the decision, in words"):
        raise BadInput(f"reason: {problem}")
    meant: set[str] = set()

    def record(state: LedgerState) -> LedgerState:
        meant.clear()
        for incident_id in incident_ids:
            known = state.open_incident(incident_id)
            if known is None:
                raise not_open(ledger, state, incident_id)
            if decision.choice not in known.finding.choices:
                raise BadInput(
                    f"choice: {not_among(decision.choice, known.finding.choices)};"
                    f" {known.incident_id} is {known.finding.kind}"
                )
            meant.update(i.incident_id for i in _meant(known, state, alike))
        for incident_id in meant:
            state = state.with_decision(incident_id, decision)
        return state

    decided = ledger.update(record)
    reach("resolve:answered")
    return tuple(i for i in decided.open_incidents if i.incident_id in meant)


def _meant(known: Incident, state: LedgerState, alike: int | None) -> Sequence[Incident]:
    if alike is None:
        return (known,)
    found = next(group for group in decided_together(state.open_incidents) if known in group)
    if len(found) != alike:
        raise BadInput(
            f"--all: got {alike}; {len(found)} open incidents are like {known.incident_id}:"
            f" {first_few((i.incident_id for i in found), _SHOWN)}. Look again:"
            " tideline incident FILE"
        )
    return found


def not_open(ledger: Ledger, state: LedgerState, incident_id: str) -> BadInput:
    """What is wrong with the id of an incident that is not open: it is closed, or there is none."""
    closed = next((i for i in ledger.closed_incidents() if i.incident_id == incident_id), None)
    if closed is not None:
        return BadInput(f"incident {incident_id} is closed: {closed_line(closed)}")
    open_ids = first_few((i.incident_id for i in state.open_incidents), _SHOWN) or "none is open"
    return BadInput(f"incident: got {shown(incident_id)}; allowed: {open_ids}")


def closed_line(incident: Incident) -> str:
    """A closed incident in one line: what was decided, by whom, and the outcome."""
    finding, decision = incident.finding, incident.decision
    by = f"{decision.choice} by {decision.by} ({decision.reason})" if decision is not None else ""
    return f"{incident.incident_id}: {finding.place}: {finding.kind}: {by} {incident.outcome}"


def asked_incidents(state: LedgerState, run_id: str) -> tuple[Incident, ...]:
    """The open incidents that a run's form asks about and nobody has answered elsewhere."""
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
        for incident in asked_incidents(state, run_id):
            choice = choices.get(incident.finding.kind, "fail")
            state = state.with_decision(incident.incident_id, Decision(choice, by, at, reason))
        return state

    ledger.update(record)
