"""A process of the product: a greenlet that hands control back at its boundaries."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

from greenlet import getcurrent, greenlet

from tideline.errors import TidelineError


class Killed(BaseException):
    """SIGKILL: nothing that the process still does can be seen by others."""


class _Body(greenlet):
    process: Process


class Process:
    """One process: a piece of work that goes on tick by tick.

    Args:
        name: For people: the run id and what it does.
        work: Called in the greenlet with this process.
    """

    def __init__(self, name: str, work: Callable[[Process], object]) -> None:
        self.name = name
        self.holders: set[str] = set()
        self.dead = False
        self.is_noticed = True
        self.ticks = 0
        self.trace: list[str] = []
        self.result: object = None
        self.error: TidelineError | None = None
        self.crash: BaseException | None = None
        self.keepers: list[Callable[[], object]] = []
        self.slept = 0.0
        self.clock_ahead = timedelta()
        self._credit = 0
        self._is_quiet = False
        self._work = work
        self._body = _Body(self._main)
        self._body.process = self

    @property
    def is_over(self) -> bool:
        """Whether it has ended, well or badly."""
        return self._body.dead or self.dead

    def go_on(self, ticks: int | None = None) -> None:
        """Let it run for that many ticks; None: to its end."""
        if not self.is_over:
            self._credit = 1_000_000 if ticks is None else ticks
            self._body.switch()

    def kill(self, is_noticed: bool = True) -> None:
        """End it where it stands.

        Args:
            is_noticed: Whether others can see that it has ended, as on the same host.
        """
        if self.is_over:
            return
        self.dead = True
        self.is_noticed = is_noticed
        if self._body:  # begun
            self._body.throw(Killed)

    def tick(self, label: str) -> None:
        """A boundary: others may act here, and the process may end here."""
        if self.dead:
            raise Killed
        if self._is_quiet:
            return
        self.ticks += 1
        self.trace.append(label)
        if self.ticks > 20_000:
            raise AssertionError(f"{self.name} does not end: {self.trace[-30:]}")
        if self._credit > 0:
            self._credit -= 1
            return
        assert self._body.parent is not None
        self._body.parent.switch()
        if self.dead:
            raise Killed

    def keep_leases(self) -> None:
        """What its lease-renewing threads do in time."""
        self._is_quiet = True
        try:
            for renew in list(self.keepers):
                with suppress(TidelineError):  # logged, and the lease expires
                    renew()
        finally:
            self._is_quiet = False

    def keeper(self, renew: Callable[[], object]) -> Callable[[], None]:
        """Add a lease to keep; the function that is returned ends that."""
        self.keepers.append(renew)
        return lambda: self.keepers.remove(renew)

    def _main(self) -> None:
        try:
            self.result = self._work(self)
        except Killed:
            self.dead = True
        except TidelineError as error:
            self.error = error
        except Exception as crash:  # a bug of the product: the world reports it
            self.crash = crash

    def __str__(self) -> str:
        return self.name


def running() -> Process | None:
    """The process whose greenlet runs now; None outside of all."""
    return getattr(getcurrent(), "process", None)
