"""The commands that plan and run: `tideline plan` and `tideline run`."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from tideline.cli.decoding import decoded_lines, new_run_id
from tideline.cli.output import Output, grid_of, headroom_lines
from tideline.cli.who import os_user
from tideline.contract.answers import RunFailure
from tideline.contract.building import build_plan, build_run, build_run_failure
from tideline.errors import Halted, ServiceAway, TidelineError
from tideline.launch.launcher import Launcher
from tideline.model.request import RunRequest, read_form
from tideline.model.run import RunRecord
from tideline.model.sizes import size_text
from tideline.model.stream import Stream
from tideline.operations.dry_run import dry_run
from tideline.pipeline.run_batch import run_batch
from tideline.stream_files import read_stream
from tideline.wiring import find_store, open_ledger, open_run

_COLUMNS = ("topic", "partition", "generation", "start_offset", "end_offset")


def plan(options: argparse.Namespace, output: Output) -> int:
    """Plan and detect; persist nothing.

    Shows what a run would read, partition by partition, what speaks against it, and how long
    retention still keeps it.
    """
    stream = read_stream(options.file)
    with open_run(stream, "plan", _request(options)) as run:
        result = dry_run(run)
    answer = build_plan(stream.stream, result)
    size = f", about {size_text(answer.estimated_bytes)}" if answer.estimated_bytes else ""
    summary = (
        f"{answer.estimated_records:,} offsets to read{size}, {answer.offset_lag:,} left for later"
    )
    if result.halts:
        summary = (
            f"nothing will be read: {len(answer.findings)} findings,"
            f" {len(answer.gone)} ranges that Kafka has deleted"
        )
    output.answer(
        answer,
        grid_of(_COLUMNS, answer.ranges),
        *headroom_lines(answer.headroom),
        *(str(notice) for notice in result.notices),
        *(str(finding) for finding in result.findings),
        *(f"deleted from Kafka: {gone}" for gone in result.proposal.gone),
        *(f"open: {incident}" for incident in result.incidents),
        summary,
    )
    if result.halts:
        return Halted.exit_code
    is_transient = any(finding.kind == "transient" for finding in result.findings)
    return ServiceAway.exit_code if is_transient else 0


def run(options: argparse.Namespace, output: Output) -> int:
    """Execute one run through all steps.

    The same run id again replays its plan: the same offsets, and still one copy. With a window or
    with ranges the run is a backfill, which never moves the live position.
    """
    stream = read_stream(options.file)
    run_id = options.run_id or new_run_id()
    request = _request(options)
    try:
        with open_run(stream, run_id, request, _watched_spark(stream)) as context:
            record = run_batch(context)
    except TidelineError as error:
        output.error(error, _failure(error, stream, run_id, request))
        return error.exit_code
    answer = build_run(record, context.decoded)
    lines = [grid_of((*_COLUMNS, "rows"), answer.ranges)] if answer.ranges else []
    summary = "nothing to do"
    if record.superseded_by is not None:
        summary = f"nothing to do: superseded by {record.superseded_by}"
    elif record.table_commit is not None:
        summary = (
            f"done: {answer.rows:,} rows ({size_text(record.table_commit.bytes)}), table version"
            f" {record.table_commit.version}, {answer.offset_lag:,} offsets left for later"
        )
    output.answer(answer, *lines, summary, *decoded_lines(context.decoded))
    return 0


def _watched_spark(stream: Stream) -> Launcher | None:
    """Spark that shows its progress on a terminal; None where there is none: Spark as usual."""
    if not sys.stderr.isatty():
        return None
    # Imported here: programs need no progress.
    from tideline.cli.progress import ProgressLine

    return Launcher(stream.spark, store=find_store(stream), watcher=ProgressLine())


def _request(options: argparse.Namespace) -> RunRequest:
    """What --from, --to and --ranges ask for."""
    form = {"from": options.window_start, "to": options.window_end, "ranges": options.ranges}
    return replace(read_form(form, datetime.now(UTC)), by=os_user())


def _failure(error: TidelineError, stream: Stream, run_id: str, request: RunRequest) -> RunFailure:
    """The error, and what the ledger knows of the run that failed."""
    record = None
    with suppress(ServiceAway):
        record = open_ledger(stream).find_run(run_id)
    if record is None:
        record = RunRecord(run_id, request.lane, "proposed", "", datetime.now(UTC))
    return build_run_failure(error, record)
