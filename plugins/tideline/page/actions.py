"""Where Airflow's own forms are, and what to fill in there. The page itself changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from urllib.parse import quote

from tideline.contract.page import Action
from tideline.ledger.state import LedgerState
from tideline.model.incident import Incident
from tideline.model.run import RunRecord
from tideline.model.stream import Stream
from tideline.page.facts import StreamFacts

_SHELL = "os:"
"""How the name of somebody begins who gave a command in a shell: Airflow has no such run."""


def run_url(stream: str, record: RunRecord) -> str | None:
    """Where Airflow shows a run, relative to its root; None where it has none."""
    by = record.request.by
    return None if by is not None and by.startswith(_SHELL) else _run(stream, record.run_id)


def actions_for(facts: StreamFacts) -> list[Action]:
    """What a person can do about a stream now, the most urgent first."""
    stream, state = facts.stream, facts.state
    answers = [_answer(stream, i) for i in state.open_incidents if not i.is_decided]
    return [*answers, *_readings(facts), *_operations(stream, state)]


def _answer(stream: Stream, incident: Incident) -> Action:
    finding = incident.finding
    title = f"Answer {incident.incident_id}: {finding.place}, {finding.kind}"
    if incident.asked_in is None:
        choices = " or ".join(finding.choices)
        return Action(
            title=title,
            url=_run(stream.stream, incident.run_id),
            fill=f"tideline resolve {stream.stream}.yaml --incident {incident.incident_id}"
            f" --choice {finding.choices[-1]} --reason ",
            note=f"No form asks: answer in a shell with {choices}, then clear the run or wait for"
            " the next one",
        )
    return Action(
        title=title,
        url=f"{_run(stream.stream, incident.asked_in)}/tasks/resolve_reset/required_actions",
        fill=None,
        note="The run waits for an answer on Airflow's page",
    )


def _readings(facts: StreamFacts) -> Iterator[Action]:
    dag = f"dags/{_quoted(facts.stream.stream)}"
    yield Action(title="Land what is new", url=dag, fill=None, note="Trigger, single run")
    yield Action(
        title="Land a window again, or for the first time",
        url=dag,
        fill=None,
        note="Trigger, Backfill: the data intervals of its runs are read as windows of time",
    )
    ranges = [asdict(r) for r in facts.not_landed]
    if ranges:
        yield Action(
            title="Land offsets that were passed over",
            url=dag,
            fill=json.dumps(ranges, separators=(",", ":")),
            note="Trigger, single run: paste this into ranges",
        )


def _operations(stream: Stream, state: LedgerState) -> Iterator[Action]:
    head = state.head
    if head.commits:
        newest = head.commits[-1].run_id
        yield Action(
            title="Read the newest run's offsets again",
            url=_run(stream.stream, newest),
            fill=None,
            note="Clear ingest_ranges: the same offsets are read, and one copy stays",
        )
        yield Action(
            title="Rewind to after the newest run",
            url="dags/tideline_rewind",
            fill=_form(stream=stream.stream, to_run=newest, reason="", confirm=stream.stream),
            note="Trigger; to_run is the last run to keep. Rows of later runs are removed",
        )
    yield Action(
        title="Hold ledger, table and brokers against each other",
        url="dags/tideline_audit",
        fill=_form(stream=stream.stream),
        note="Trigger; it changes nothing",
    )


def _form(**values: object) -> str:
    return json.dumps(values, separators=(",", ":"))


def _run(stream: str, run_id: str) -> str:
    return f"dags/{_quoted(stream)}/runs/{_quoted(run_id)}"


def _quoted(text: str) -> str:
    return quote(text, safe="")
