"""Two processes of one stream, and one event, at every boundary: exhaustive.

Each duel is a history: a beginning, a first process that goes on for some boundaries, what befalls
it there, and a second one that does all of its work; then the first goes on, if it still can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.simulation.events import Event
from tests.simulation.histories import History, play

Events = tuple[Event, ...]
LANDED: Events = (("produce", 0, 0, 6), ("live", 0), ("finish", 0))
SETUPS: dict[str, Events] = {
    "first run": (("produce", 0, 0, 6),),
    "later run": (
        *(*LANDED, ("save_ledger",), ("produce", 0, 0, 3), ("transaction", 0, 0, 3, 1)),
        ("produce", 0, 0, 1),
    ),
}
PROCESSES: dict[str, Event] = {
    "live": ("live", 0),
    "live as tasks": ("live", 1),
    "backfill ahead": ("backfill", 0, 0, 60, 4),
    "backfill of landed": ("backfill", 0, 0, 10, 4),
    "replay": ("again", 0, 0),
    "rewind": ("rewind", 0, 0),
    "rewind to the first": ("rewind", 5, 1),
    "move": ("move", 1),
    "audit": ("audit",),
}
BEFALLS: dict[str, Events] = {
    "nothing": (),
    "killed": (("kill", 0, 1),),
    "killed on another host": (("kill", 0, 0),),
    "killed, and its leases run out": (("kill", 0, 0), ("pass_time", 100, 1)),
    "stopped, and its leases run out": (("pass_time", 100, 1),),
    "the ledger's answer is lost": (("lose_ledger_answer",), ("step", 0, 8)),
    "the table's answer is lost": (("lose_table_answer",), ("step", 0, 8)),
}
WORLDLY: dict[str, Events] = {
    "truncated": (("truncate", 0, 0, 3, 0),),
    "truncated and refilled": (("truncate", 0, 0, 3, 6),),
    "truncated far and refilled": (("truncate", 0, 0, 9, 14),),
    "expired": (("expire", 0, 0, 100),),
    "expired in part": (("expire", 0, 0, 60),),
    "re-created": (("recreate", 0, 14),),
    "deleted": (("delete_topic", 0),),
    "grown": (("grow", 0), ("produce", 0, 1, 3)),
    "elected": (("elect", 0, 0), ("produce", 0, 0, 2)),
    "swapped": (("swap_cluster", 14),),
    "optimized": (("optimize",),),
    "rows deleted": (("foreign_delete", 50),),
    "restored": (("restore", 1),),
    "vacuumed": (("vacuum",),),
    "the ledger put back": (("restore_ledger",),),
    "refused": (("refuse", 0),),
    "refused for a while": (("refuse", 0), ("live", 0), ("finish", 1), ("grant",)),
    "cannot be read, cut and refilled": (("unreadable", 0, 0, 1), ("truncate", 0, 0, 2, 3)),
}

TYPED = "typed, and more is landed than decoded"
TYPED_SETUPS: dict[str, Events] = {
    TYPED: (
        *(("produce", 0, 0, 6), ("garble", 0, 0, 1), ("live", 0), ("finish", 0), ("save_ledger",)),
        *(("edit_decode",), ("produce", 0, 0, 4), ("garble", 0, 0, 0), ("live", 0), ("finish", 0)),
        *(("edit_decode",), ("decodable",), ("produce", 0, 0, 3)),
    )
}
DECODERS: dict[str, Event] = {"decode": ("decode", 0), "redrive": ("redrive", 0)}
TYPED_WORLDLY: dict[str, Events] = {
    "nothing": (),
    "a typed table deleted": (("drop_typed", 1),),
    "both typed tables deleted": (("drop_typed", 0),),
    "a typed commit's answer lost": (("lose_typed_answer", 0),),
    "the same of the quarantine": (("lose_typed_answer", 1),),
    "typed tables out of the file": (("edit_decode",),),
    "nobody can decode them": (("garble", 0, 0, 0), ("garble", 0, 0, 5), ("garble", 0, 0, 9)),
}

_LIVE: Events = (PROCESSES["live"], ("finish", 1))


@dataclass(frozen=True)
class Duel:
    """One exhaustive series: every boundary of a first process.

    Args:
        setup, first, befalls, second: Names of the tables above; `second` may be none.
        worldly: What happens at the boundary besides.
        sleeps: Whether people decide, and all is landed, before the first one goes on.
    """

    setup: str
    first: str
    befalls: str
    second: str | None = None
    worldly: str | None = None
    sleeps: bool = False

    def at(self, boundary: int) -> History:
        """The history in which it happens at a boundary of the first process."""
        events: list[Event] = [*self._begun, ("step", 0, boundary)]
        events += BEFALLS[self.befalls]
        if self.worldly is not None:
            events += (WORLDLY | TYPED_WORLDLY)[self.worldly]
        if self.second is not None:
            # The second one is the youngest process that lives.
            work = ((PROCESSES | DECODERS)[self.second], ("finish", 1))
            events += work
            if self.sleeps:
                events += [("decide", 0, boundary % 2), ("decide", 1, boundary % 2)]
                events += [*work, *_LIVE, *_LIVE]
            events.append(("finish", 0))
        options: dict[str, Any] = {"kafka": {"topics": ["t"]}, "patience_seconds": 2}
        if self.setup in TYPED_SETUPS:
            options["decode"] = {"value": {"format": "json"}, "quarantine": {"max_share": 1}}
        return History(boundary, {"t": 1}, options, tuple(events))

    def boundaries(self) -> int:
        """How many the first process has if nothing befalls it."""
        events = (*self._begun, ("finish", 0))
        outcome = play(History(0, {"t": 1}, self.at(0).options, events))
        earlier = sum(event[0] == "live" for event in self._begun[:-1])
        return outcome.world.processes[earlier].ticks

    @property
    def _begun(self) -> Events:
        setup = (SETUPS | TYPED_SETUPS)[self.setup]
        return (*setup, (PROCESSES | DECODERS)[self.first])


def duels() -> Iterator[Duel]:
    """Every pair of processes with everything that may befall the first."""
    for setup in SETUPS:
        for first in PROCESSES:
            for befalls in BEFALLS:
                for second in PROCESSES:
                    yield Duel(setup, first, befalls, second)


def surprises() -> Iterator[Duel]:
    """Every process, with one change of the world at each boundary, or a crash right after it."""
    for setup in SETUPS:
        for first in PROCESSES:
            for worldly in WORLDLY:
                for befalls in ("nothing", "killed"):
                    yield Duel(setup, first, befalls, worldly=worldly)


def sleepers() -> Iterator[Duel]:
    """Every process that stands still while the world changes, and wakes up when all is decided."""
    befalls = "stopped, and its leases run out"
    for setup in SETUPS:
        for first in PROCESSES:
            second = "replay" if first.startswith("backfill") else "live"
            for worldly in WORLDLY:
                yield Duel(setup, first, befalls, second, worldly, sleeps=True)


def decoders() -> Iterator[Duel]:
    """Who decodes, or has rows of typed tables undone, dies or sleeps while the world changes."""
    for first in (*DECODERS, "live", "replay", "rewind", "rewind to the first"):
        for second in (*DECODERS, "live", "rewind to the first"):
            for worldly in (*WORLDLY, *TYPED_WORLDLY):
                for befalls in ("killed", "stopped, and its leases run out"):
                    yield Duel(TYPED, first, befalls, second, worldly, sleeps=befalls != "killed")


def fight(duel: Duel, every: int = 1, first: int = 0) -> Iterator[tuple[History, list[str]]]:
    """Play a duel at its boundaries; yields what failed, and an empty list where nothing did.

    Args:
        duel: Which.
        every: Only each n-th boundary.
        first: The first of them.
    """
    for boundary in range(first, duel.boundaries() + 1, every):
        history = duel.at(boundary)
        yield history, play(history).problems
