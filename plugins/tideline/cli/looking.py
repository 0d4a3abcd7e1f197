"""The commands that answer a question at a glance: `tideline status` and `tideline explain`."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from datetime import UTC, datetime

from tideline.cli.output import Output, grid
from tideline.contract.answers import Explained, Statuses
from tideline.contract.shapes import StreamStatus
from tideline.errors import BadInput, Transient
from tideline.model.durations import duration_text
from tideline.model.offsets import TopicPartition
from tideline.model.request import RunRequest
from tideline.model.status import Status
from tideline.model.stream import Stream
from tideline.pipeline.observing import observe_topics
from tideline.rules.explanation import explain
from tideline.rules.status import summarize
from tideline.stream_files import read_stream
from tideline.stream_folder import stream_paths
from tideline.wiring import open_ledger, open_run

_HEADINGS = ("stream", "state", "lag", "oldest unread", "headroom", "last run", "incidents")


def status(options: argparse.Namespace, output: Output) -> int:
    """One line for each stream: of the named files, otherwise of the folder of stream files.

    Its state (never run, up to date, behind, waiting for a person, halted), lag, the age of the
    oldest unread record, headroom, the run that landed last, and open incidents. Where brokers do
    not answer, as the last run saw it.
    """
    now = datetime.now(UTC)
    streams = [read_stream(file) for file in options.files or stream_paths()]
    found = [_status(stream, now) for stream in streams]
    answer = Statuses(streams=[StreamStatus.model_validate(s) for s in found])
    old = [s.stream for s in found if not s.is_measured]
    lines = [f"brokers do not answer for {', '.join(old)}: as the last run saw it"] if old else []
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
        ends: Mapping[TopicPartition, int] | None = None
        try:
            topics = observe_topics(run, state.head).topics
        except Transient:
            pass
        else:
            level = stream.kafka.isolation_level
            ends = {
                TopicPartition(t.topic, p.partition): end
                for t in topics
                for p in t.partitions
                if (end := p.end_offset(level)) is not None
            }
        return summarize(stream.stream, state.head, state.decoding, state.open_incidents, ends, now)


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
