"""How far long work is, for a person at a terminal. rich draws it, and obeys `NO_COLOR`.

rich is imported here where there is a terminal: a task of Airflow has none, and would wait for it.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tideline.model.wording import duration_text, how_many

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

log = logging.getLogger("tideline")
Stage = Callable[[str], None]
"""Is told how far work is; often, so it returns at once."""
_SELDOM_SECONDS = 30.0


@contextmanager
def working(text: str = "") -> Iterator[ProgressLine | None]:
    """Show that work is going on, and for how long.

    Args:
        text: What is done; without a terminal a line of the log. Empty where the log says it.

    Yields:
        The line of the terminal, which can show a job of Spark; None where there is no terminal.
    """
    if not sys.stderr.isatty():
        if text:
            log.info("%s", text)
        yield None
        return
    with ProgressLine(text or "at work") as line:
        yield line


def logged_seldom(clock: Callable[[], float] = time.monotonic) -> Stage:
    """What logs how far work is, a line in half a minute at most; work that is shorter has none."""
    last = clock()

    def log_stage(text: str) -> None:
        nonlocal last
        if clock() - last >= _SELDOM_SECONDS:
            last = clock()
            log.info("%s", text)

    return log_stage


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

        def advance(name: str) -> None:
            nonlocal done
            done += 1
            bar.update(task, advance=1, description=f"{text}: {done} of {total}, {name}")

        yield advance


def _bar(console: Console | None = None) -> Progress:
    """A line of a terminal that is gone when the work has ended."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.table import Column

    text = TextColumn("{task.description}", markup=False, table_column=Column(overflow="fold"))
    columns = (SpinnerColumn(), BarColumn(16), TimeElapsedColumn(), text)
    return Progress(*columns, console=console or Console(stderr=True), transient=True)


class ProgressLine:
    """Shows a person that a command is at work, and how far its job of Spark is.

    Args:
        text: What is shown where Spark has no job.
        console: Of a terminal; None means standard error.
        clock: Only differences count.
    """

    def __init__(
        self,
        text: str,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._text = text
        self._clock = clock
        self._bar = _bar(console)
        self._task = self._bar.add_task(text, total=None)
        self._partitions = self._offsets = 0
        self._first: tuple[float, int] | None = None

    def __enter__(self) -> ProgressLine:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()  # an empty line is left to whoever writes next

    def begin(self, partitions: int, offsets: int) -> None:
        """A job is handed over; Spark may have to start first."""
        self._partitions, self._offsets = partitions, offsets
        self._first = None
        self.stage("waiting for Spark")

    def stage(self, text: str) -> None:
        """Spark has come to this, and reads nothing yet."""
        self._bar.reset(self._task, total=None, description=text)
        self._bar.refresh()

    def note(self, text: str) -> None:
        """Work of this process has come to this."""
        self._bar.update(self._task, description=text, refresh=True)

    def update(self, tasks: int, of_tasks: int, records: int) -> None:
        """It is as far as this."""
        now = self._clock()
        self._first = self._first or (now, records)  # Spark's start does not count
        seconds, more = now - self._first[0], records - self._first[1]
        rate = more / seconds if seconds > 0 and more else None
        text = progress_text(tasks, of_tasks, self._partitions, records, self._offsets, rate)
        self._bar.update(
            self._task, description=text, total=self._offsets, completed=records, refresh=True
        )

    def end(self) -> None:
        """The job has ended; the command goes on."""
        self.stage(self._text)


def progress_text(
    tasks: int, of_tasks: int, partitions: int, records: int, offsets: int, rate: float | None
) -> str:
    """How far Spark is, how fast, and how long it takes still.

    A task is called a partition where each reads one. A record is an offset, but not every offset
    has a record, so the time left is the longest that it can be at that rate: records in a second,
    None while it is unknown.
    """
    what = how_many(of_tasks, "partition" if of_tasks == partitions else "task")
    text = f"{tasks:,} of {what} done, {records:,} of {how_many(offsets, 'offset')} read"
    if rate is None:
        return text
    left = max(0, offsets - records) / rate
    return f"{text}, {rate:,.0f} a second, at most {duration_text(round(left))} left"
