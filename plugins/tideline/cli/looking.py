"""The commands that answer a question at a glance: `tideline status` and `tideline explain`."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime

from tideline.cli.output import Output, grid
from tideline.contract.answers import Explained, Statuses
from tideline.contract.shapes import StreamStatus
from tideline.errors import BadInput, Transient
from tideline.model.durations import duration_text
from tideline.model.observation import Observation
from tideline.model.offsets import TopicPartition
from tideline.model.request import RunRequest
from tideline.model.status import Status
from tideline.model.stream import Stream
from tideline.pipeline.observing import observe_topics
from tideline.rules.bands import standings
from tideline.rules.explanation import explain
from tideline.rules.following import mark_followed
from tideline.rules.status import doubt, summarize
from tideline.stream_files import read_stream
from tideline.stream_folder import stream_paths
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
