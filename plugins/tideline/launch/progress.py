"""How far Spark is, on one line of a terminal that is written again and again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from tideline.model.wording import duration_text

_AGAIN = "\r\x1b[2K"
"""To the line's beginning, and clear it (ECMA-48)."""


class ProgressLine:
    """Shows a person how far a job of a local driver is; of `clock`, only differences count."""

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
