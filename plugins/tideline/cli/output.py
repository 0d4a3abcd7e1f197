"""What a command shows: tables for people, one JSON object for programs, how far Spark is.

And who gives it: the user of the operating system, for the ledger.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table

from tideline.contract.answers import Failure
from tideline.contract.building import build_failure
from tideline.contract.shapes import Headroom, Shape
from tideline.errors import TidelineError
from tideline.model.head import reaches_text
from tideline.model.incident import with_entries
from tideline.model.wording import duration_text


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
        for line in lines:
            # Brackets in a text are no markup: `[10, 30)`.
            self._console.print(line, markup=not isinstance(line, str))

    def error(self, error: TidelineError, failure: Failure | None = None) -> None:
        """Print why a command failed.

        Args:
            error: Its message goes to standard error, with its entries in the runbook.
            failure: The JSON object, if more is known than the error itself says.
        """
        if self.as_json:
            self.answer(failure or build_failure(error))
        print(with_entries(error), file=sys.stderr)


def grid(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table without lines; an empty cell stands for None."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    return table


def grid_of(columns: Sequence[str], items: Iterable[object]) -> Table:
    """A table of objects, whose attributes are the columns."""
    return grid(columns, ([getattr(item, name) for name in columns] for item in items))


def headroom_lines(headroom: Iterable[Headroom], most: int = 5) -> list[str]:
    """The partitions whose next offsets expire first, at most `most` of them."""
    return [
        reaches_text(h.topic, h.partition, h.next_offset, h.seconds_left)
        for h in list(headroom)[:most]
        if h.seconds_left is not None
    ]


_AGAIN = "\r\x1b[2K"
"""To the line's beginning, and clear it (ECMA-48)."""


class ProgressLine:
    """How far Spark is, on one line of a terminal that is written again and again.

    Of `clock`, only differences count.
    """

    def __init__(
        self, terminal: TextIO = sys.stderr, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._terminal = terminal
        self._clock = clock
        self._partitions = self._offsets = 0
        self._first: tuple[float, int] | None = None

    def begin(self, partitions: int, offsets: int) -> None:
        """A job is handed over; Spark may have to start first."""
        self._partitions, self._offsets = partitions, offsets
        self._first = None
        self._write("waiting for Spark")

    def update(self, tasks: int, of_tasks: int, records: int) -> None:
        """It is as far as this."""
        now = self._clock()
        self._first = self._first or (now, records)  # Spark's start does not count
        seconds, more = now - self._first[0], records - self._first[1]
        rate = more / seconds if seconds > 0 and more else None
        place = (self._partitions, records, self._offsets)
        self._write(progress_text(tasks, of_tasks, *place, rate))

    def end(self) -> None:
        """Leave an empty line to whoever writes next."""
        self._write("")

    def _write(self, text: str) -> None:
        self._terminal.write(f"{_AGAIN}{text}")
        self._terminal.flush()


def progress_text(
    tasks: int, of_tasks: int, partitions: int, records: int, offsets: int, rate: float | None
) -> str:
    """How far Spark is, how fast, and how long it takes still.

    A task is called a partition where each reads one. A record is an offset, but not every offset
    has a record, so the time left is the longest that it can be at that rate: records in a second,
    None while it is unknown.
    """
    what = "partitions" if of_tasks == partitions else "tasks"
    text = f"{tasks:,} of {of_tasks:,} {what} done, {records:,} of {offsets:,} offsets read"
    if rate is None:
        return text
    left = max(0, offsets - records) / rate
    return f"{text}, {rate:,.0f} a second, at most {duration_text(round(left))} left"


def os_user(on_behalf_of: str | None = None) -> str:
    """For the ledger: `os:` and the user; then for whom they say they act, shortened."""
    number = os.geteuid()  # no variable: anybody can set one
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:  # a container may run as a user whom nobody has named
        name = str(number)
    return f"os:{name}" if on_behalf_of is None else f"os:{name} (for {on_behalf_of[:100]})"
