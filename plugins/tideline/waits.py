"""Waits of more than two seconds, told to the person whose command waits.

Only commands tell them (`tell_waits`): a task's log has the error in the end, and a server would
tell its log each look of each page.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shutil import get_terminal_size
from textwrap import wrap
from threading import Timer, local
from time import monotonic
from typing import ClassVar

from tideline.model.wording import duration_text

_TOLD_AFTER = 2.0


def tell_waits() -> None:
    """From now on, tell the waits of this process on standard error."""
    _Wait.are_told = True


@contextmanager
def waiting(what: str, seconds: float | None = None) -> Iterator[Callable[[str], None]]:
    """Tell what is waited for once that has taken two seconds, and each new reason from then on.

    A wait inside another one takes its place: it knows more.

    Args:
        what: As in `Kafka at localhost:9092`.
        seconds: How long it is tried; None where that is not known.

    Yields:
        What is told why a try has failed.
    """
    wait, outer = _Wait(what, seconds), getattr(_innermost, "wait", None)
    if outer is not None:
        outer.end()
    _innermost.wait = wait
    try:
        yield wait.failed
    finally:
        wait.end()
        _innermost.wait = None


_innermost = local()


class _Wait:
    are_told: ClassVar[bool] = False
    _told: ClassVar[dict[str, set[str]]] = {}
    """Lines by what is waited for: several threads may wait for the same."""

    def __init__(self, what: str, seconds: float | None) -> None:
        self._what, self._why, self._began = what, "", monotonic()
        self._end = "" if seconds is None else f"; trying for {duration_text(seconds)}"
        self._timer = Timer(_TOLD_AFTER, self._tell)
        if self.are_told:
            self._timer.daemon = True
            self._timer.start()

    def failed(self, why: str) -> None:
        self._why = ": " + why.removeprefix(f"{self._what.split()[-1]}: ")
        if self.are_told and monotonic() - self._began > _TOLD_AFTER:
            self._tell()

    def end(self) -> None:
        self._timer.cancel()
        self._told.pop(self._what, None)

    def _tell(self) -> None:
        end = f"{self._end}, Ctrl-C ends" if self._end and sys.stderr.isatty() else self._end
        line = f"waiting for {self._what}{self._why}{end}"
        if line not in self._told.setdefault(self._what, set()):
            self._told[self._what].add(line)
            lines = wrap(line, get_terminal_size().columns) if sys.stderr.isatty() else [line]
            print(*lines, sep="\n", file=sys.stderr, flush=True)
