"""The commands that work: plan, run, decode, redrive, rewind, maintain, move-ledger.

`plan` is here although it stores nothing: it takes what `run` takes, and shows what that would do.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from pydantic import ValidationError

from tideline.cli.output import (
    CommandOutput,
    first_lines,
    first_rows,
    grid,
    headroom_lines,
    os_user,
)
from tideline.cli.runs import new_run_id, watched_run
from tideline.cli.tables import decoded_lines, folded_lines
from tideline.contract.answers import RunFailure
from tideline.contract.building import (
    build_maintenance,
    build_move,
    build_not_rewound,
    build_plan,
    build_rewind_failure,
    build_rewound,
    build_run,
    build_run_failure,
)
from tideline.errors import BadInput, Halted, ServiceAway, TidelineError
from tideline.launch.progress import working
from tideline.ledger.ledger_port import LedgerStore
from tideline.ledger.move import move_ledger
from tideline.model.addresses import LedgerKind, LedgerLocation, is_in_object_store
from tideline.model.current import Folding
from tideline.model.maintenance import FileCount, RowCount, TableUpkeep
from tideline.model.request import RunRequest, read_form
from tideline.model.run import RunRecord
from tideline.model.wording import how_many, shown, size_text
from tideline.operations.questions import dry_run
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.run_batch import run_batch
from tideline.secrecy import without_login
from tideline.store.store_settings import store_settings
from tideline.stream.files import read_file, read_stream
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger, open_run, open_store, open_tables

_COLUMNS = ("topic", "partition", "generation", "start_offset", "end_offset")
_UPKEEP_COLUMNS = (
    "table",
    "files",
    "merged",
    "into",
    "deleted",
    "rows expired",
    "files after",
    "in the folder after",
)


def plan(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> int:
    """Show what a run would read; store nothing.

    The answer lists the offsets of each partition, the findings that would halt the run, and how
    long retention still keeps the records.
    """
    with open_run(stream, "plan", _request(options)) as run:
        result = dry_run(run)
    answer = build_plan(stream.stream, result)
    size = f", about {size_text(answer.estimated_bytes)}" if answer.estimated_bytes else ""
    offsets = how_many(answer.estimated_records, "offset")
    summary = f"{offsets} to read{size}, {answer.offset_lag:,} left for later"
    if result.halts:
        summary = (
            f"nothing will be read: {how_many(len(answer.findings), 'finding')},"
            f" {how_many(len(answer.gone), 'range')} that Kafka has deleted"
        )
    output.answer(
        answer,
        *first_rows(_COLUMNS, answer.ranges),
        *headroom_lines(answer.headroom),
        *first_lines("", result.notices),
        *first_lines("", result.findings),
        *first_lines("deleted from Kafka: ", result.proposal.gone),
        *first_lines("open: ", result.incidents),
        summary,
    )
    if result.halts:
        return Halted.exit_code
    is_transient = any(finding.kind == "transient" for finding in result.findings)
    return ServiceAway.exit_code if is_transient else 0


def run(options: argparse.Namespace, output: CommandOutput) -> int:
    """Land what is new, in one run through all steps.

    The id of an earlier run replays its plan: the same offsets, and still one copy of each row.
    With --from and --to, or with --ranges, the run is a backfill, which never moves the live
    position.

    With a fleet file the command finds the fleet's topics and lands each of them, --parallel topics
    at once. A topic that halts does not stop the others; the last lines name it.
    """
    if options.stream is None and read_file(options.file).fleet is not None:
        from tideline.cli.fleets import run_fleet  # most runs are of one stream

        return run_fleet(options, _request(options), output)
    if options.parallel is not None:
        raise BadInput(f"--parallel: got {options.parallel}; allowed only with a fleet file")
    stream = read_stream(options.file, options.stream)
    run_id, replayed = options.run_id or new_run_id(), False
    request = _request(options)
    folding = Folding()
    try:
        with watched_run(stream, run_id, request) as context:
            if options.run_id is not None:
                known = context.ledger.find_run(run_id)
                replayed = known is not None and known.has_ended
            record = run_batch(context)
            if context.folded is not None:
                folding = context.ledger.read().folding
    except TidelineError as error:
        output.error(error, _failure(error, stream, run_id, request))
        return error.exit_code
    answer = build_run(record, context.decoded, context.folded, replayed=replayed)
    lines = first_rows((*_COLUMNS, "rows"), answer.ranges)
    summary = "nothing to do"
    if record.superseded_by is not None:
        summary = f"nothing to do: superseded by {record.superseded_by}"
    elif record.table_commit is not None:
        lag = answer.offset_lag
        left = "" if lag is None else f", {how_many(lag, 'offset')} left for later"
        what = f"replayed, since run {run_id} ended earlier" if replayed else "done"
        summary = (
            f"{what}: {how_many(answer.rows, 'row')} ({size_text(record.table_commit.bytes)}),"
            f" table version {record.table_commit.version}{left}"
        )
    elif replayed:
        summary = f"nothing to do: run {run_id} ended earlier with nothing to read"
    if replayed:
        summary += ". To read what is new, leave out --run-id, or give another id"
    more = (*decoded_lines(context.decoded), *folded_lines(context.folded, folding))
    output.answer(answer, *lines, summary, *more)
    return 0


def _request(options: argparse.Namespace) -> RunRequest:
    """What --from, --to and --ranges ask for."""
    form = {key: vars(options)[key] for key in ("from", "to", "ranges")}
    return replace(read_form(form, datetime.now(UTC)), by=os_user())


def _failure(error: TidelineError, stream: Stream, run_id: str, request: RunRequest) -> RunFailure:
    """The error, and what the ledger knows of the run that failed."""
    record = None
    with suppress(ServiceAway):  # the ledger itself may be what is away
        record = open_ledger(stream).find_run(run_id)
    if record is None:
        record = RunRecord(run_id, request.lane, "proposed", "", datetime.now(UTC))
    return build_run_failure(error, record)


def rewind(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> int:
    """Restore table and ledger to the state after a run.

    Every later run is undone. Run the same command again to finish an interrupted rewind.
    """
    by = os_user(options.by)
    asked = RewindRequest(options.to_run, options.reason, by, options.accept_loss)
    try:
        with open_run(stream, "rewind", RunRequest(by=by)) as run:
            finished = rewind_stream(run, asked)
            head = run.ledger.read().head
    except TidelineError as error:
        output.error(error, build_rewind_failure(error, asked.to_run))
        return error.exit_code
    if finished is None:
        output.answer(
            build_not_rewound(asked.to_run, head),
            f"nothing to do: the table is in the state after run {asked.to_run} already",
        )
        return 0
    output.answer(
        build_rewound(finished, head),
        f"{finished.rewind_id}: {how_many(len(finished.undone_runs), 'run')} undone,"
        f" {how_many(finished.rows, 'row')} removed, of which Kafka cannot give back"
        f" {finished.lost_rows:,}",
    )
    return 0


def maintain(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    """Merge small files of the stream's tables, and delete files that no reader needs.

    No row changes. Old rows of the quarantine table are removed if the stream file says so.
    """
    # Imported here: other commands need none.
    from tideline.operations.erasing import finish_erasures
    from tideline.operations.maintaining import maintain_stream

    request = RunRequest(by=os_user())
    doing = working(f"reading and merging files of {stream.stream}'s tables")
    with open_run(stream, "maintain", request) as run, doing:
        tables = open_tables(stream)
        upkeeps = maintain_stream(run, tables, dry_run=options.dry_run)
        erased = () if options.dry_run else finish_erasures(run, tables)
    answer = build_maintenance(stream.stream, upkeeps, dry_run=options.dry_run)
    summary = "done" if answer.status == "done" else "nothing to do"
    if options.dry_run and answer.status == "done":
        summary = "nothing was changed: the table above shows what would happen"
    rows = grid(_UPKEEP_COLUMNS, map(_upkeep_row, answer.tables))
    output.answer(answer, rows, *map(str, erased), summary)


def _upkeep_row(upkeep: TableUpkeep) -> list[str | None]:
    after = upkeep.after
    return [
        upkeep.table,
        _text(upkeep.before.active),
        _text(upkeep.merged),
        _text(upkeep.written),
        _text(upkeep.vacuumed),
        _text(upkeep.expired),
        None if after is None else _text(after.active),
        None if after is None else _text(after.stored),
    ]


def _text(count: FileCount | RowCount) -> str:
    number = count.files if isinstance(count, FileCount) else count.rows
    return f"{number:,} ({size_text(count.bytes)})"


def move(stream: Stream, options: argparse.Namespace, output: CommandOutput) -> None:
    """Move the ledger, or finish an interrupted move; say what to change in the stream file."""
    target = _location(stream, options.to, options.at)
    connection = _connection(stream, options.connection)
    moved = move_ledger(stream.ledger_location, target, _opens(connection), os_user())
    summary = f"the ledger is in {moved.target} already"
    if moved.is_empty:
        summary = f"there is no ledger in {moved.source} yet, so nothing had to be moved"
    elif moved.source is not None:
        summary = f"moved the ledger from {moved.source} to {moved.target}"
    lines = []
    if moved.target != stream.ledger_location:
        where = str(options.file)
        if options.stream is not None:  # the template would move the ledgers of all others
            where = f"`overrides`, {stream.kafka.topics[0]}, of {options.file}"
        lines.append(f"now set {moved.target.in_stream_file}, in {where}")
        lines += _about_the_connection(stream, moved.target, connection)
    output.answer(build_move(stream.stream, moved), summary, *lines)


def _location(stream: Stream, kind: LedgerKind, address: str | None) -> LedgerLocation:
    """The location that a stream file with these keys names.

    Raises:
        BadInput: A stream file with these keys is refused.
    """
    if address is None and kind == stream.ledger:
        return stream.ledger_location
    data = stream.model_dump()
    data["table"]["connection"] = None  # it may have to come or to go with this address
    data |= {"ledger": kind, "ledger_uri": None, "ledger_connection": None}
    data["ledger_uri" if kind == "delta" else "ledger_connection"] = address
    try:
        return Stream.model_validate(data).ledger_location
    except ValidationError as error:
        key = "ledger_uri" if kind == "delta" else "ledger_connection"
        allowed = error.errors()[0]["msg"].removeprefix("Value error, ")
        if error.errors()[0]["type"] == "string_pattern_mismatch":
            allowed = "allowed: the id of an Airflow connection"
        what = f"--at: got {shown(without_login(str(address)))}, as {key}"
        raise BadInput(f"{what}; {allowed}") from error


def _connection(stream: Stream, named: str | None) -> str | None:
    """The object store's connection: of the stream file, or the one named for this move.

    A file without an address in an object store may not name one, and the ledger may be about to
    get there.

    Raises:
        BadInput: They are two.
    """
    in_file = stream.table.connection
    if named is not None and in_file not in (None, named):
        raise BadInput(f"--connection {named}: the stream file's table.connection is {in_file}")
    return named or in_file


def _opens(connection: str | None) -> Callable[[LedgerLocation], LedgerStore]:
    """Opens each location that a move meets, also one that only an unfinished move's mark names."""

    def open_at(location: LedgerLocation) -> LedgerStore:
        in_store = location.kind == "delta" and is_in_object_store(location.address)
        return open_store(
            location, store_settings(connection, location.address) if in_store else None
        )

    return open_at


def _about_the_connection(
    stream: Stream, target: LedgerLocation, connection: str | None
) -> list[str]:
    """What else to change in the file, which names a connection exactly if an address needs it."""
    if connection is None:
        return []
    ledger = target.kind == "delta" and is_in_object_store(target.address)
    others = stream.model_copy(update={"ledger": "airflow"}).store_addresses
    if not ledger and not others:
        return ["also remove `table.connection`: no address in an object store is left"]
    return [] if stream.table.connection else [f"also set `table.connection: {connection}`"]
