"""The commands that answer a question at a glance: `tideline status` and `tideline explain`.

The commands about incidents: `tideline incident` and `tideline resolve`.
"""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from tideline.cli.output import Output, closed_line, grid, os_user
from tideline.contract.answers import Explained, Incidents, Resolution, Statuses
from tideline.contract.building import build_incident, build_incident_details
from tideline.contract.shapes import StreamStatus
from tideline.errors import BadInput, Transient
from tideline.failpoints import reach
from tideline.landing.observing import observe_topics
from tideline.ledger.ledger import Ledger
from tideline.ledger.state import LedgerState
from tideline.model.incident import Decision, Incident
from tideline.model.observation import Observation
from tideline.model.offsets import TopicPartition
from tideline.model.request import RunRequest
from tideline.model.run import RunRecord
from tideline.model.status import Status
from tideline.model.verdicts import VERDICTS
from tideline.model.wording import duration_text, reason_problem, shown
from tideline.page.bands import standings
from tideline.rules.incidents import affected_text, affected_versions, how_to_decide, where_to_read
from tideline.rules.positions import mark_followed
from tideline.rules.status import doubt, explain, summarize
from tideline.stream.files import read_stream, stream_paths
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger, open_run

_HEADINGS = ("stream", "state", "lag", "oldest unread", "headroom", "last run", "incidents")


def status(options: argparse.Namespace, output: Output) -> int:
    """One line for each stream: of the named files, otherwise of the folder of stream files.

    Its state (never run, up to date, behind, waiting for a person, halted), lag, the age of the
    oldest unread record, headroom, the run that landed last, and open incidents. Where brokers do
    not tell, as the last run saw it, with the reason below.
    """
    now = datetime.now(UTC)
    streams = [read_stream(file) for file in options.files or stream_paths()]
    found = [_status(stream, now) for stream in streams]
    answer = Statuses(streams=[StreamStatus.model_validate(s) for s in found])
    lines = [
        f"{s.stream}: {s.problem}{'' if s.is_measured else '; lag as the last run saw it'}"
        for s in found
        if s.problem
    ]
    output.answer(answer, grid(_HEADINGS, (_row(s, now) for s in found)), *lines)
    return 0


def explain_record(options: argparse.Namespace, output: Output) -> int:
    """What became of one record.

    Landed, by which run, in which version of the table; accepted as lost, by whom; why the log has
    no row there; on its way; or not read yet.
    """
    place = TopicPartition(options.topic, options.partition)
    if options.partition < 0 or options.offset < 0:
        raise BadInput(
            f"partition, offset: got {options.partition}, {options.offset}; allowed: 0 or more"
        )
    ledger = open_ledger(read_stream(options.file))
    state = ledger.read()
    found = explain(
        place,
        options.offset,
        state.head,
        state.runs.values(),
        state.decoding,
        ledger.recent_runs(),
        ledger.recent_incidents(),
    )
    version = "" if found.table_version is None else f", table version {found.table_version}"
    decoded = {None: "", True: ", decoded", False: ", not decoded yet"}[found.decoded]
    line = f"{found.place}: {found.outcome}: {found.text}{version}{decoded}"
    output.answer(Explained.model_validate(found), line)
    return 0


def _status(stream: Stream, now: datetime) -> Status:
    with open_run(stream, "status", RunRequest()) as run:
        state = run.ledger.read()
        head = mark_followed(state.head, stream.kafka)
        observation: Observation | None = None
        try:
            observation = observe_topics(run, head)
        except (Transient, BadInput) as error:
            problem: str | None = error.message
        found = standings(head, observation, stream.kafka.isolation_level)
        if observation is not None:
            problem = doubt(stream.kafka.topics, head, found, observation, is_newer=True)
        return summarize(
            stream.stream, head, state.decoding, state.open_incidents, found, problem, now
        )


def _row(status: Status, now: datetime) -> list[object]:
    unread, left = status.oldest_unread_at, status.headroom_seconds
    return [
        status.stream,
        status.state.replace("_", " "),
        status.offset_lag,
        None if unread is None else f"{duration_text((now - unread).total_seconds())} ago",
        None if left is None else duration_text(left) if left > 0 else "overdue",
        status.last_run,
        status.open_incidents or None,
    ]


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
