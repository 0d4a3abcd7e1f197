"""How far long work is, for a person at a terminal. rich draws it, and obeys `NO_COLOR`.

rich is imported here where there is a terminal: a task of Airflow has none, and would wait for it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TYPE_CHECKING

from tideline.model.wording import duration_text

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

log = logging.getLogger("tideline")
_SAID_AFTER = 2.0


@contextmanager
def working(text: str) -> Iterator[None]:
    """Show that work goes on, and for how long; without a terminal it is a line of the log."""
    if not sys.stderr.isatty():
        log.info("%s", text)
        yield
        return
    with _bar() as bar:
        bar.add_task(text, total=None)
        yield


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say on standard error what is waited for, once that has taken two seconds."""
    said = Timer(_SAID_AFTER, lambda: print(f"waiting for {what}", file=sys.stderr, flush=True))
    said.daemon = True
    said.start()
    try:
        yield
    finally:
        said.cancel()


@contextmanager
def counted(text: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show how many of many things are done; without a terminal nothing is shown.

    Yields:
        What is told that one more is done, with its name.
    """
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    done = 0
    with _bar() as bar:
        task = bar.add_task(f"{text}: 0 of {total}", total=total)

        def told(name: str) -> None:
            nonlocal done
            done += 1
            bar.update(task, advance=1, description=f"{text}: {done} of {total}, {name}")

        yield told


def _bar(console: Console | None = None) -> Progress:
    """A line of a terminal that is gone when the work has ended."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    text = TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold"))
    columns = (SpinnerColumn(), BarColumn(16), TimeElapsedColumn(), text)
    return Progress(*columns, console=console or Console(stderr=True), transient=True)


class ProgressLine:
    """Shows a person how far a job of a local driver is; of `clock`, only differences count."""

    def __init__(
        self, console: Console | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._clock = clock
        self._bar: Progress | None = None
        self._partitions = self._offsets = 0
        self._first: tuple[float, int] | None = None

    def begin(self, partitions: int, offsets: int) -> None:
        """A job is handed over; Spark may have to start first."""
        self.end()
        self._partitions, self._offsets = partitions, offsets
        self._first = None
        self._bar = _bar(self._console)
        self._bar.add_task("waiting for Spark", total=None)
        self._bar.start()

    def update(self, tasks: int, of_tasks: int, records: int) -> None:
        """It is as far as this."""
        now = self._clock()
        self._first = self._first or (now, records)  # Spark's start does not count
        seconds, more = now - self._first[0], records - self._first[1]
        rate = more / seconds if seconds > 0 and more else None
        text = progress_text(tasks, of_tasks, self._partitions, records, self._offsets, rate)
        if self._bar is not None:
            (task,) = self._bar.task_ids
            self._bar.update(
                task, description=text, total=self._offsets, completed=records, refresh=True
            )

    def end(self) -> None:
        """Leave an empty line to whoever writes next."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


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
