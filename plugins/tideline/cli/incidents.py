"""The commands about incidents: `tideline incident` and `tideline resolve`."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from tideline.cli.output import Output, closed_line
from tideline.cli.who import os_user
from tideline.contract.answers import Incidents, Resolution
from tideline.contract.parts import build_incident, build_incident_details
from tideline.errors import BadInput
from tideline.failpoints import reach
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.incident import Decision, Incident
from tideline.model.run import RunRecord
from tideline.model.verdicts import VERDICTS
from tideline.model.wording import reason_problem, shown
from tideline.rules.incident_report import (
    affected_text,
    affected_versions,
    how_to_decide,
    where_to_read,
)
from tideline.stream_files import read_stream
from tideline.wiring import open_ledger


def incident(options: argparse.Namespace, output: Output) -> int:
    """Show the open incidents, or one: what was found, what is at stake, what may be done."""
    stream = read_stream(options.file)
    ledger = open_ledger(stream)
    shown = ledger.read().open_incidents
    if options.id is not None:
        shown = (_by_id(ledger, options.id),)
    closed_runs = list(ledger.closed_runs()) if shown else []
    details = [build_incident_details(i, affected_versions(closed_runs, i)) for i in shown]
    lines = [line for i in shown for line in _lines(closed_runs, i)] or ["no open incident"]
    output.answer(Incidents(incidents=details), *lines)
    return 0


def resolve(options: argparse.Namespace, output: Output) -> int:
    """Decide about an open incident.

    The decision takes effect in the stream's next run, or when the halted run is cleared.
    """
    stream = read_stream(options.file)
    ledger = open_ledger(stream)
    if not options.reason.strip():
        raise BadInput("--reason: got nothing; allowed: the reason for the decision, in words")
    if problem := reason_problem(options.reason):
        raise BadInput(f"--reason: {problem}")
    by = os_user(options.by)
    decision = Decision(options.choice, by, datetime.now(UTC), options.reason)

    def decide(state: LedgerState) -> LedgerState:
        known = state.open_incident(options.incident)
        if known is None:
            raise _not_open(ledger, state, options.incident)
        if options.choice not in known.finding.choices:
            raise BadInput(
                f"--choice: got {options.choice!r} for {known.incident_id}, which is"
                f" {known.finding.kind}; allowed: {', '.join(known.finding.choices)}"
            )
        return state.with_decision(known.incident_id, decision)

    decided = ledger.update(decide).open_incident(options.incident)
    reach("resolve:answered")
    assert decided is not None
    effect = "the incident stays open"
    if decided.is_decided:
        meaning = VERDICTS[decided.finding.kind].choices[options.choice]
        effect = f"{meaning}. Takes effect when the halted run is cleared, or in the next run"
    output.answer(
        Resolution(incident=build_incident(decided)),
        f"{decided.incident_id}: {options.choice} by {by}: {effect}",
    )
    return 0


def _not_open(ledger: Ledger, state: LedgerState, incident_id: str) -> BadInput:
    closed = next((i for i in ledger.closed_incidents() if i.incident_id == incident_id), None)
    if closed is not None:
        return BadInput(f"incident {incident_id} is closed: {closed_line(closed)}")
    open_ids = ", ".join(i.incident_id for i in state.open_incidents) or "none is open"
    return BadInput(f"incident: got {shown(incident_id)}; allowed: {open_ids}")


def _by_id(ledger: Ledger, incident_id: str) -> Incident:
    state = ledger.read()
    for known in (*state.open_incidents, *ledger.closed_incidents()):
        if known.incident_id == incident_id:
            return known
    raise _not_open(ledger, state, incident_id)


def _lines(closed_runs: list[RunRecord], known: Incident) -> list[str]:
    if known.closed_at is not None:
        return [f"closed: {closed_line(known)}", str(known)]
    lines = [f"{known}{affected_text(known, affected_versions(closed_runs, known))}"]
    if known.decision is not None:
        lines.append(f"  decided: {known.decision.choice} by {known.decision.by}")
    choices = VERDICTS[known.finding.kind].choices if known.finding.decidable else {}
    lines += [f"  {choice}: {text}" for choice, text in choices.items()]
    return [*lines, f"  {how_to_decide(known)}", f"  {where_to_read(known)}"]
