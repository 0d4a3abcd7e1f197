"""Time, chance and the machine, as the product asks for them; put in place for a block.

`simulated` replaces, in the product's modules, what would make two plays of a history differ: the
wall clock, pauses, random ids, threads that renew leases, and the question whether a process lives.
"""

from __future__ import annotations

import itertools
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from tideline import documents, failpoints
from tideline.landing import context
from tideline.landing import observing as stability
from tideline.ledger import leases, ledger, snapshots, state
from tideline.ledger import ledger_port as conflicts

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""When each world begins."""
_FAST_FOLDER = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Job files are real files, and half of the time would go into a disk."""


class Clock:
    """The world's wall clock: every look takes a millisecond; jumps are events."""

    def __init__(self) -> None:
        self.milliseconds = 0

    def now(self) -> datetime:
        """The time, UTC-aware; never the same twice."""
        self.milliseconds += 1
        return BEGIN + timedelta(milliseconds=self.milliseconds)

    def epoch_ms(self) -> int:
        """The time as Kafka writes it."""
        return int(BEGIN.timestamp() * 1000) + self.milliseconds


class Machine:
    """What a process asks the machine it runs on.

    Args:
        clock: The world's.
        reach: Called with the name of each failpoint.
        pause: Called with the seconds of each pause.
        elapsed: A process's own seconds, for deadlines.
        renew: Given the function that renews a lease; returns one that ends that.
        ahead: How much a process's own clock shows more than the world's.
        is_gone: Whether the holder of a lease is known to have ended.
        named: Called with each id that is given out.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        reach: Callable[[str], None],
        pause: Callable[[float], None],
        elapsed: Callable[[], float],
        ahead: Callable[[], timedelta],
        renew: Callable[[Callable[[], object]], Callable[[], None]],
        is_gone: Callable[[Any], bool],
        named: Callable[[str], None],
    ) -> None:
        self.clock = clock
        self.reach = reach
        self.pause = pause
        self.elapsed = elapsed
        self.ahead = ahead
        self.renew = renew
        self.is_gone = is_gone
        self.named = named


_MACHINE: list[Machine] = []
_IDS = itertools.count(1)


@contextmanager
def simulated(machine: Machine) -> Iterator[None]:
    """Have the product's modules ask this machine for the length of a block."""
    global _IDS
    _IDS = itertools.count(1)
    _MACHINE.append(machine)
    folder, tempfile.tempdir = tempfile.tempdir, _FAST_FOLDER
    replaced = [(module, name, getattr(module, name)) for module, name, _ in _places()]
    for module, name, value in _places():
        setattr(module, name, value)
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)
        tempfile.tempdir = folder
        for module, name, value in replaced:
            setattr(module, name, value)
        _MACHINE.pop()


@contextmanager
def _renewed(name: str, renew: Callable[[], object]) -> Iterator[None]:
    stop = _MACHINE[-1].renew(renew)
    try:
        yield
    finally:
        stop()


_NOW, _REACH, _LOAD = context.now, failpoints.reach, documents.load


def _now() -> datetime:
    return _MACHINE[-1].clock.now() + _MACHINE[-1].ahead()


def _reach(place: str) -> None:
    _MACHINE[-1].reach(place)


def _pause(seconds: float) -> None:
    _MACHINE[-1].pause(seconds)


def _elapsed() -> float:
    return _MACHINE[-1].elapsed()


def _next_id() -> SimpleNamespace:
    name = f"{next(_IDS):032x}"
    _MACHINE[-1].named(name)
    return SimpleNamespace(hex=name)


@lru_cache(maxsize=4096)
def _load(kind: type[Any], text: str, where: str) -> Any:
    """As `documents.load`; the same text is parsed once, since documents never change."""
    return _LOAD(kind, text, where)


@lru_cache(maxsize=1)
def _places() -> tuple[tuple[Any, str, Any], ...]:
    """Module, name, and what stands there in a simulated world."""
    time = SimpleNamespace(monotonic=_elapsed, sleep=_pause)
    ids = SimpleNamespace(uuid4=_next_id)
    found: list[tuple[Any, str, Any]] = [
        (stability, "time", time),
        (conflicts, "time", time),
        (leases, "datetime", SimpleNamespace(now=lambda zone: _now())),
        (leases, "renewed", _renewed),
        (leases, "_is_gone", lambda lease: _MACHINE[-1].is_gone(lease)),
        (leases, "process_identity", lambda pid: ""),
        (ledger, "uuid", ids),
        (snapshots, "uuid", ids),
    ]
    for module in [m for n, m in sorted(sys.modules.items()) if n.startswith("tideline.")]:
        for name, real, ours in (
            ("now", _NOW, _now),
            ("reach", _REACH, _reach),
            ("load", _LOAD, _load),
        ):
            if getattr(module, name, None) is real and module not in (documents, failpoints):
                found.append((module, name, ours))
    assert state.LedgerState  # imported: its modules are among those replaced
    return tuple(found)
