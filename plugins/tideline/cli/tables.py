"""The commands about tables made of the raw one: decode, redrive, fold, look, sweep."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import TYPE_CHECKING

from tideline.cli.output import Output, os_user
from tideline.cli.runs import new_run_id, watched_spark
from tideline.contract.answers import CurrentView, Swept
from tideline.contract.building import (
    build_checked,
    build_decoded,
    build_decoded_again,
    build_folded,
    build_redriven,
)
from tideline.errors import AuditNotClean, BadInput
from tideline.model.current import Folding, FoldRecord
from tideline.model.decoding import DecodeRecord
from tideline.model.request import RunRequest
from tideline.model.wording import shown
from tideline.pipeline.run_batch import decode_batch, fold_batch
from tideline.stream.files import read_stream
from tideline.stream.stream import Stream
from tideline.wiring import open_run

if TYPE_CHECKING:
    from tideline.folding.checking import CurrentCheck


def decode(options: argparse.Namespace, output: Output) -> int:
    """Decode what is landed, without landing anything.

    The id of a run that has decoded decodes its plan again. With --again, rows that were decoded by
    the rules of an older version are made anew by those of now: all of them, or from --since on.
    """
    stream = read_stream(options.file, options.stream)
    if stream.decode is None:
        raise BadInput(f"{options.file}: decode: got nothing; required for this command")
    if options.again:
        return _decode_again(stream, options, output)
    if options.since is not None:
        raise BadInput(f"--since: got {shown(options.since)}; allowed only together with --again")
    run_id = options.run_id or new_run_id()
    with open_run(stream, run_id, RunRequest(by=os_user()), watched_spark(stream)) as context:
        decode_batch(context)
    lines = decoded_lines(context.decoded) or ["nothing to decode"]
    output.answer(build_decoded(run_id, context.decoded), *lines)
    return 0


def _decode_again(stream: Stream, options: argparse.Namespace, output: Output) -> int:
    from tideline.operations.redrive import decode_again  # other commands need none

    since = _parsed_time(options.since)
    run_id = options.run_id or new_run_id("again")
    with open_run(stream, run_id, RunRequest(by=os_user()), watched_spark(stream)) as context:
        done = decode_again(context, since)
    output.answer(
        build_decoded_again(run_id, done),
        f"{done.asked:,} offsets decoded again: {done.changed:,} rows of the typed table and"
        f" {done.quarantine_changed:,} of the quarantine are others now",
    )
    return 0


def redrive(options: argparse.Namespace, output: Output) -> int:
    """Decode quarantined records again.

    All of them; or only those of some error classes, or with Kafka's time from --since on.
    """
    from tideline.operations.redrive import redrive as redrive_records  # other commands need none

    stream = read_stream(options.file, options.stream)
    run_id = options.run_id or new_run_id("redrive")
    with open_run(stream, run_id, RunRequest(by=os_user()), watched_spark(stream)) as context:
        redriven = redrive_records(context, options.classes or (), _parsed_time(options.since))
    answer = build_redriven(run_id, redriven)
    output.answer(
        answer,
        f"{answer.moved} of {answer.asked} quarantined records are typed rows now,"
        f" {answer.left} stay",
    )
    return 0


def _parsed_time(text: str | None) -> datetime | None:
    """A time with its offset from UTC; None for None.

    Raises:
        BadInput: It is none.
    """
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.min
    if at.tzinfo is None:
        raise BadInput(
            f"--since: got {shown(text)}; allowed: ISO 8601 with its offset from UTC, for example"
            " 2026-01-31T00:00:00Z"
        )
    return at


def fold(options: argparse.Namespace, output: Output) -> int:
    """Fold what is decoded into the current table, without landing or decoding anything.

    Whatever current.every says. The id of a run that has folded folds its changes once more. With
    --anew every bucket is folded anew, from all that is decoded.
    """
    stream = read_stream(options.file, options.stream)
    if stream.current is None:
        raise BadInput(f"{options.file}: current: got nothing; required for this command")
    run_id = options.run_id or new_run_id()
    if options.check:
        return _check(stream, run_id, options.buckets, output)
    if options.buckets is not None:
        raise BadInput(f"--buckets: got {options.buckets}; allowed only together with --check")
    with open_run(stream, run_id, RunRequest(by=os_user()), watched_spark(stream)) as context:
        fold_batch(context, "anew" if options.anew else "due")
        folding = context.ledger.read().folding
    lines = folded_lines(context.folded, folding) or ["nothing to fold"]
    output.answer(build_folded(run_id, context.folded, folding), *lines)
    return 0


def _check(stream: Stream, run_id: str, count: int | None, output: Output) -> int:
    from tideline.folding.checking import check_current  # other commands need none

    if count is not None and count < 1:
        raise BadInput(f"--buckets: got {count}; allowed: 1 or more")
    with open_run(stream, run_id, RunRequest(by=os_user()), watched_spark(stream)) as context:
        check = check_current(context, count)
    answer = build_checked(check)
    summary = "clean: the current table is the fold of" if answer.clean else "NOT CLEAN: of"
    if check.buckets:
        summary = f"buckets {', '.join(map(str, check.buckets))}: {summary}"
    output.answer(
        answer,
        *map(str, check.flaws),
        f"{summary} {answer.changes:,} changes; {answer.rows:,} rows, {answer.deleted:,} deleted",
        *([] if answer.clean else [_after_flaws(check)]),
    )
    return 0 if answer.clean else AuditNotClean.exit_code


def _after_flaws(check: CurrentCheck) -> str:
    anew = "Next: tideline fold FILE --anew"
    if any(flaw.place == "order" for flaw in check.flaws):
        return f"{anew}, which halts with key_moved: a person decides what orders them"
    return anew


def current_view(options: argparse.Namespace, output: Output) -> int:
    """A query of the rows of now: the current table, and over it what it does not have yet.

    It stays right while more is folded; a view that is made again reads less. With --history each
    row of each time, of the typed table alone.
    """
    from tideline.folding.views import view_of  # other commands need none

    stream = read_stream(options.file, options.stream)
    if stream.current is None:
        raise BadInput(f"{options.file}: current: got nothing; required for this command")
    names = None if options.names is None else tuple(options.names)
    with open_run(stream, "current", RunRequest()) as run:
        sql = view_of(run, options.sql, names, is_history=options.history)
    output.answer(CurrentView(sql=sql), sql)
    return 0


def sweep(options: argparse.Namespace, output: Output) -> int:
    """List rows whose delete was lost: the last whole snapshot has not read them again.

    With --rows they are gone from then on, if they are still as many.
    """
    from tideline.folding import sweeping  # other commands need none

    stream = read_stream(options.file, options.stream)
    if stream.current is None:
        raise BadInput(f"{options.file}: current: got nothing; required for this command")
    request, run_id = RunRequest(by=os_user()), new_run_id("sweep")
    with open_run(stream, run_id, request, watched_spark(stream)) as context:
        if options.rows is None:
            ghosts, record = sweeping.find_ghosts(context), None
        else:
            ghosts, record = sweeping.sweep(context, options.rows)
    is_done = record is not None
    answer = Swept(
        status="done" if is_done else "listed" if ghosts.rows else "nothing_to_do",
        rows=ghosts.rows,
        keys=ghosts.keys,
        snapshot_began_at=ghosts.began_at,
        snapshot_ended_at=ghosts.ended_at,
    )
    keys = (", ".join(f"{n}={v}" for n, v in key.items()) for key in ghosts.keys)
    since, until = ghosts.began_at, ghosts.ended_at
    what = "rows are gone now" if is_done else "rows are not at the source any more"
    more = ghosts.rows - len(ghosts.keys)
    output.answer(
        answer,
        f"the last whole snapshot: {since:%Y-%m-%d %H:%M:%S} to {until:%H:%M:%S}",
        *(f"  {key}" for key in keys),
        *([f"  and {more} more"] if more else []),
        f"{ghosts.rows:,} {what}",
        *([f"Next: tideline sweep FILE --rows {ghosts.rows}"] if answer.status == "listed" else []),
    )
    return 0


def decoded_lines(record: DecodeRecord | None) -> list[str]:
    """What became of raw rows, for people; nothing where none was decoded."""
    if record is None:
        return []
    classes = ", ".join(f"{count} {name}" for name, count in record.classes)
    failed = ", ".join(f"{count} {name}" for name, count in record.failed if count)
    of_types = ", ".join(f"{t.rows} {t.name}" for t in record.by_type)
    return [
        f"decoded: {record.decoded}{f' ({of_types})' if of_types else ''},"
        f" tombstones {record.tombstones}, quarantined"
        f" {record.quarantined}{f' ({classes})' if classes else ''}"
        f"{f'; fail expectations: {failed}' if failed else ''}",
        *map(str, record.notices),
    ]


def folded_lines(record: FoldRecord | None, folding: Folding) -> list[str]:
    """What was folded, for people; nothing where nothing was."""
    if record is None:
        return []
    without = f", {record.keyless} without a key" if record.keyless else ""
    return [
        f"folded: {record.changes:,} changes{without} into {len(record.buckets)} buckets;"
        f" {folding.live:,} rows, {folding.deleted:,} deleted"
    ]
