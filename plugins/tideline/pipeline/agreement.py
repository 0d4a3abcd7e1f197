"""A verdict rests on looks that agree; what can pass is looked at again (R14, faults catalogue)."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, TypeVar

from tideline.errors import ServiceAway
from tideline.pipeline.context import log

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 5.0


class Sight(Protocol):
    """One thing seen in a look; `passing` ones never become a verdict."""

    @property
    def kind(self) -> str:
        """Its class."""


Seen = TypeVar("Seen", bound=Sight)
Look = TypeVar("Look")


def agree(
    look: Callable[[], tuple[Look, tuple[Seen, ...]]],
    *,
    key: Callable[[Seen], Hashable],
    patience_seconds: float,
) -> tuple[Look, tuple[Seen, ...]]:
    """Look until nothing is wrong, or until two looks in a row show the same and nothing passing.

    Args:
        look: Called again and again, with growing pauses; whatever it raises goes through.
        key: What makes two sights the same.
        patience_seconds: How long passing or changing sights are waited out; one that goes by at
            the very end is confirmed by one look more.

    Raises:
        ServiceAway: They did not settle in time; carries what was seen last.
    """
    deadline = time.monotonic() + patience_seconds
    pause = _FIRST_PAUSE_SECONDS
    before: set[Hashable] = set()
    while True:
        found, sights = look()
        passing = [s for s in sights if s.kind == "transient"]
        now = {key(s) for s in sights}
        if not passing and now == before:
            return found, sights
        if sights and time.monotonic() > deadline:  # a clean look gets its second one
            raise ServiceAway(
                f"no settled answer within {patience_seconds:.0f} s: {_text(passing or sights)};"
                " nothing moved, try again later",
                sights=[str(s) for s in sights],
            )
        before = now
        if sights:
            log.info("looking again: %s", sights[0])
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _text(sights: Iterable[object]) -> str:
    return " ".join(map(str, sights))
