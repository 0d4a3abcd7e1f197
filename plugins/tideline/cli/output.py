"""What a command shows: tables for people, one JSON object for programs.

And who gives it: the user of the operating system, for the ledger.
"""

from __future__ import annotations

import json
import os
import pwd
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tideline.contract.answers import Failure
from tideline.contract.building import build_failure
from tideline.contract.parts import Headroom, Shape
from tideline.errors import TidelineError
from tideline.model.head import reaches_text
from tideline.model.incident import with_entries
from tideline.texts import visible

_COLOURS = {
    **dict.fromkeys(("halted", "overdue", "failed", "FAILED", "NOT CLEAN"), "bold red"),
    **dict.fromkeys(("waiting", "decided", "behind", "retry", "WARNING"), "yellow"),
    **dict.fromkeys(("up to date", "ok", "clean", "done"), "green"),
    "never run": "dim",
}
_STATE = re.compile(rf"({'|'.join(_COLOURS)})\b")
_STATES = ("state", "status", "headroom")
"""Columns whose words have colours: in others they may be values of records."""
_BY_AIRFLOW = re.compile(r"([a-z]+)__(\d{4}-\d\d-\d\d)T(\d\d:\d\d)\S*")
_COPIED = re.compile(r"\s*(next: |to decide|runbook: |tideline )|.*\n", re.IGNORECASE)
_COMMAND = re.compile(r"(\btideline [a-z-]+) FILE\b")


class CommandOutput:
    """Where a command's answer goes.

    Args:
        as_json: Whether to print one JSON object on standard output, and nothing else there.
        file: What commands of a text have in place of FILE; None where no file is known.
    """

    def __init__(self, as_json: bool, file: str | None = None) -> None:
        self.as_json = as_json
        self._file = file
        width = None if sys.stdout.isatty() else 250  # do not fold lines that a program reads
        self._console = Console(highlight=False, width=width)

    def answer(self, answer: Shape, *lines: str | Table) -> None:
        """Print the answer as JSON, or the lines for a person."""
        if self.as_json:
            json.dump(answer.data(), sys.stdout)
            sys.stdout.write("\n")
            return
        self._print(self._console, lines)

    def line(self, text: str) -> None:
        """Print a line of a long answer as soon as it is there; JSON comes as a whole."""
        if not self.as_json:
            self._print(self._console, [text])

    def filled(self, text: str) -> str:
        """A text whose commands name the command's own file, where one is known."""
        file = self._file
        return text if file is None else _COMMAND.sub(lambda found: f"{found[1]} {file}", text)

    def _print(self, console: Console, lines: Iterable[str | Table]) -> None:
        """Print lines: a terminal breaks them between words, unless they are to be copied."""
        for line in self._shown(console, lines):
            is_copied = isinstance(line, Text) and _COPIED.match(line.plain) is not None
            console.print(line, soft_wrap=is_copied or not console.is_terminal)

    def _shown(self, console: Console, lines: Iterable[str | Table]) -> Iterator[Text | Table]:
        for line in lines:
            if isinstance(line, str):
                yield _coloured(self.filled(line))
            elif console.is_terminal and _least_width(console, line) > console.width:
                yield from _stacked(line)
            else:
                yield line

    @contextmanager
    def meanwhile(self) -> Iterator[Callable[..., None]]:
        """Until the answer is there, show a terminal these lines, each time in place of the last.

        Yields:
            What takes the lines; it does nothing where there is no terminal.
        """
        if self.as_json or not self._console.is_terminal:
            yield lambda *_: None
            return
        # Imported here: only a terminal needs it.
        from rich.live import Live

        with Live(console=self._console, transient=True, auto_refresh=False) as live:
            yield lambda *lines: live.update(
                Group(*self._shown(self._console, lines)), refresh=True
            )

    def error(self, error: TidelineError, failure: Failure | None = None) -> None:
        """Print why a command failed.

        Args:
            error: Its message goes to standard error, with its entries in the runbook.
            failure: The JSON object, if more is known than the error itself says.
        """
        self.tell(with_entries(error))  # first: standard output may take nothing
        if self.as_json:
            self.answer(failure or build_failure(error))

    def tell(self, text: str) -> None:
        """Print on standard error."""
        self._print(Console(stderr=True, highlight=False), text.splitlines())


def _coloured(text: str) -> Text:
    """Brackets in a text are no markup: `[10, 30)`. A value of a record commands no terminal."""
    line = Text(visible(text))
    if found := _STATE.match(text):
        line.stylize(_COLOURS[found[0]], 0, found.end())
    return line


def _least_width(console: Console, table: Table) -> int:
    """How wide a table is at least, with no word broken."""
    return table.__rich_measure__(console, console.options.update(max_width=10_000)).minimum


def _stacked(table: Table) -> Iterator[Text]:
    """A table that is too wide for the terminal, as a few lines for each row."""
    names = [str(column.header) for column in table.columns]
    width = max(map(len, names)) + 2
    for row in zip(*(column.cells for column in table.columns), strict=True):
        mark = "- "
        for name, cell in zip(names, row, strict=True):
            if isinstance(cell, Text) and cell.plain:
                yield Text.assemble(f"{mark}{name:<{width}}", cell)
                mark = "  "


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table without lines; an empty cell stands for None."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        cells = [Text("" if cell is None else visible(str(cell))) for cell in row]
        for name, cell in zip(columns, cells, strict=True):
            if name in _STATES and cell.plain in _COLOURS:
                cell.stylize(_COLOURS[cell.plain])
        table.add_row(*cells)
    return table


def grid_of(columns: Sequence[str], items: Iterable[object]) -> Table:
    """A table of objects, whose attributes are the columns."""
    return grid(columns, ([getattr(item, name) for name in columns] for item in items))


def first_lines(prefix: str, items: Iterable[object], most: int = 5) -> list[str]:
    """A line for each of the first things, and one that says how many there are beside."""
    every = list(items)
    lines = [f"{prefix}{item}" for item in every[:most]]
    left = len(every) - most
    return [*lines, f"{prefix}and {left:,} more"] if left > 0 else lines


def first_rows(
    columns: Sequence[str], items: Sequence[object], most: int = 20
) -> list[str | Table]:
    """`grid_of` the first of them, if there are any, and a line that says how many are beside."""
    left = len(items) - most
    if left <= 0:
        return [grid_of(columns, items)] if items else []
    return [grid_of(columns, items[:most]), f"and {left:,} more; --json has them all"]


def headroom_lines(headroom: Iterable[Headroom], most: int = 5) -> list[str]:
    """The partitions whose next offsets expire first, at most `most` of them."""
    return [
        reaches_text(h.topic, h.partition, h.next_offset, h.seconds_left)
        for h in list(headroom)[:most]
        if h.seconds_left is not None
    ]


def short_run(run_id: str) -> str:
    """A run's kind and minute, where its id begins with them as Airflow's do."""
    return _BY_AIRFLOW.sub(r"\1 \2 \3", run_id)


def os_user(on_behalf_of: str | None = None) -> str:
    """For the ledger: `os:` and the user; then for whom they say they act, shortened."""
    number = os.geteuid()  # no variable: anybody can set one
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run as a user whom nobody has named
        name = str(number)
    return f"os:{name}" if on_behalf_of is None else f"os:{name} (for {on_behalf_of[:100]})"
