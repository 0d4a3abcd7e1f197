"""`tideline maintain`: merge small files of a stream's tables, delete those that nobody needs."""

from __future__ import annotations

import argparse

from tideline.cli.output import Output, grid
from tideline.cli.who import os_user
from tideline.contract.building import build_maintenance
from tideline.contract.shapes import FileCount, RowCount, TableUpkeep
from tideline.model.request import RunRequest
from tideline.model.sizes import size_text
from tideline.stream_files import read_stream
from tideline.wiring import open_run, open_tables

_COLUMNS = (
    "table",
    "files",
    "merged",
    "into",
    "deleted",
    "rows expired",
    "files after",
    "in the folder after",
)


def maintain(options: argparse.Namespace, output: Output) -> int:
    """Merge small files of the stream's tables, and delete those that nobody needs.

    No row changes; old rows of the quarantine go where the stream file says so.
    """
    from tideline.operations.maintenance import maintain_stream  # other commands need none

    stream = read_stream(options.file)
    with open_run(stream, "maintain", RunRequest(by=os_user())) as run:
        upkeeps = maintain_stream(run, open_tables(stream), dry_run=options.dry_run)
    answer = build_maintenance(stream.stream, upkeeps, dry_run=options.dry_run)
    summary = "done" if answer.status == "done" else "nothing to do"
    if options.dry_run and answer.status == "done":
        summary = "nothing was changed: this is what would be done"
    output.answer(answer, grid(_COLUMNS, map(_row, answer.tables)), summary)
    return 0


def _row(upkeep: TableUpkeep) -> list[str | None]:
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
