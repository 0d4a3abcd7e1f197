"""What a command shows: tables for people, one JSON object for programs.

And who gives it: the user of the operating system, for the ledger.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from tideline.contract.answers import Failure
from tideline.contract.building import build_failure
from tideline.contract.shapes import Headroom, Shape
from tideline.errors import TidelineError
from tideline.model.head import reaches_text
from tideline.model.incident import with_entries
from tideline.texts import visible


class Output:
    """Where a command's answer goes.

    Args:
        as_json: Whether to print one JSON object on standard output, and nothing else there.
    """

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        width = None if sys.stdout.isatty() else 250  # do not fold lines that a program reads
        self._console = Console(highlight=False, soft_wrap=True, width=width)

    def answer(self, answer: Shape, *lines: str | Table) -> None:
        """Print the answer as JSON, or the lines for a person."""
        if self.as_json:
            json.dump(answer.data(), sys.stdout)
            sys.stdout.write("\n")
            return
        for line in _plain(lines):
            self._console.print(line)

    def line(self, text: str) -> None:
        """Print a line of a long answer as soon as it is there; JSON comes as a whole."""
        if not self.as_json:
            self._console.print(Text(visible(text)))

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
            yield lambda *lines: live.update(Group(*_plain(lines)), refresh=True)

    def error(self, error: TidelineError, failure: Failure | None = None) -> None:
        """Print why a command failed.

        Args:
            error: Its message goes to standard error, with its entries in the runbook.
            failure: The JSON object, if more is known than the error itself says.
        """
        if self.as_json:
            self.answer(failure or build_failure(error))
        print(with_entries(error), file=sys.stderr)


def _plain(lines: Iterable[str | Table]) -> list[Text | Table]:
    """Brackets in a text are no markup: `[10, 30)`. A value of a record commands no terminal."""
    return [Text(visible(line)) if isinstance(line, str) else line for line in lines]


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table without lines; an empty cell stands for None."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else visible(str(cell)) for cell in row))
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


def os_user(on_behalf_of: str | None = None) -> str:
    """For the ledger: `os:` and the user; then for whom they say they act, shortened."""
    number = os.geteuid()  # no variable: anybody can set one
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run as a user whom nobody has named
        name = str(number)
    return f"os:{name}" if on_behalf_of is None else f"os:{name} (for {on_behalf_of[:100]})"
