"""A verdict rests on observations that agree; a transient fault is observed again (R14)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable, Iterable
from typing import Protocol, TypeVar

from tideline.errors import ServiceAway
from tideline.model.durations import duration_text

log = logging.getLogger("tideline")

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 1.0, 5.0


class Observed(Protocol):
    """One thing that an observation has shown; a `transient` one never becomes a verdict."""

    @property
    def kind(self) -> str:
        """Its class."""


Item = TypeVar("Item", bound=Observed)
Basis = TypeVar("Basis")


def observe_until_stable(
    observe: Callable[[], tuple[Basis, tuple[Item, ...]]],
    *,
    key: Callable[[Item], Hashable],
    patience_seconds: float,
) -> tuple[Basis, tuple[Item, ...]]:
    """Observe until nothing is wrong, or until two observations in a row show the same.

    Args:
        observe: Called again and again, with growing pauses: what it rests on, and what is wrong.
            An error that it raises goes through.
        key: What makes two items the same.
        patience_seconds: How long transient or changing items are waited out. A clean observation
            at the very end is confirmed by one more.

    Returns:
        The last observation, without transient items.

    Raises:
        ServiceAway: The observations did not agree in time; `observed` lists what was seen last.
    """
    deadline = time.monotonic() + patience_seconds
    pause = _FIRST_PAUSE_SECONDS
    before: set[Hashable] = set()
    while True:
        basis, items = observe()
        transient = [item for item in items if item.kind == "transient"]
        keys = {key(item) for item in items}
        if not transient and keys == before:
            return basis, items
        if items and time.monotonic() > deadline:
            raise ServiceAway(
                f"no stable answer within {duration_text(patience_seconds)}:"
                f" {_text(transient or items)};"
                " nothing moved, try again later",
                observed=[str(item) for item in items],
            )
        before = keys
        if items:
            log.info("observing again: %s", items[0])
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def _text(items: Iterable[object]) -> str:
    return " ".join(map(str, items))
