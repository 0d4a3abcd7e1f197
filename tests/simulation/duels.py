"""Two processes of one stream, and one event, at every boundary: exhaustive.

Each duel is a history: a beginning, a first process that goes on for some boundaries, what befalls
it there, and a second one that does all of its work; then the first goes on, if it still can.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from tests.simulation.events import Event
from tests.simulation.histories import History, play

Events = tuple[Event, ...]
LANDED: Events = (("produce", 0, 0, 6), ("live", 0), ("finish", 0))
SETUPS: dict[str, Events] = {
    "first run": (("produce", 0, 0, 6),),
    "later run": (
        *(*LANDED, ("save_ledger",), ("produce", 0, 0, 3), ("live", 0), ("finish", 0)),
        *(("transaction", 0, 0, 3, 1), ("produce", 0, 0, 1)),
    ),
}
_ASK_FOR_RUNS = ("replay", "rewind", "rewind to the first")
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
    "maintenance": ("maintain",),
    "erasure": ("erase", 1, 0),
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
FOLDED = "folded, and more is decoded than folded"
FOLDED_SETUPS: dict[str, Events] = {
    FOLDED: (
        *(("produce", 0, 0, 9), ("garble", 0, 0, 1), ("live", 0), ("finish", 0), ("save_ledger",)),
        *(("edit_current",), ("produce", 0, 0, 4), ("live", 0), ("finish", 0), ("edit_current",)),
        *(("decodable",), ("produce", 0, 0, 3)),
    )
}
FOLDERS: dict[str, Event] = {
    "fold": ("fold", 0),
    "fold of the first run": ("fold", 1),
    "fold anew": ("fold_anew",),
}
DECODERS: dict[str, Event] = {
    "decode": ("decode", 0),
    "redrive": ("redrive", 0),
    "anew": ("decode_anew", 0),
}
TYPED_WORLDLY: dict[str, Events] = {
    "nothing": (),
    "a typed table deleted": (("drop_typed", 1),),
    "both typed tables deleted": (("drop_typed", 0),),
    "a typed commit's answer lost": (("lose_typed_answer", 0),),
    "the same of the quarantine": (("lose_typed_answer", 1),),
    "typed tables out of the file": (("edit_decode",),),
    "nobody can decode them": (("garble", 0, 0, 0), ("garble", 0, 0, 5), ("garble", 0, 0, 9)),
}

FOLDED_WORLDLY: dict[str, Events] = {
    "the current table deleted": (("drop_current",),),
    "a row of it gone": (("change_current", 0),),
    "a row of it twice": (("change_current", 1),),
    "an older version of it": (("change_current", 2),),
    "its commit's answer lost": (("lose_typed_answer", 2),),
    "the current table out of the file": (("edit_current",),),
    "all of it decoded again": (("decode_anew", 0), ("finish", 1)),
}

_LIVE: Events = (PROCESSES["live"], ("finish", 1))
FOREIGN: dict[str, Events] = {
    "overwritten": (("overwrite",),),
    "rows deleted": (("foreign_delete", 50),),
    "all rows deleted": (("foreign_delete", 100),),
    "rows appended": (("foreign_append", 2),),
    "optimized": (("optimize",),),
    "vacuumed": (("vacuum",),),
    "restored": (("restore", 1),),
    "restored further": (("restore", 3),),
    "an older copy put back": (("put_copy_back", 1),),
    "a much older copy put back": (("put_copy_back", 3),),
    "the newest commit overwritten": (("vanish",),),
    "the log cleaned up": (("clean_log", 1),),
    "dropped": (("drop_table",),),
    "another table in its place": (("occupy",),),
    "renamed, and back": (("move_away",), ("step", 0, 12), ("move_back",)),
    "renamed, met, and back": (*(("move_away",), *_LIVE), ("move_back",)),
}
"""What others may do to a table."""

_OPTIONS = {"kafka": {"topics": ["t"]}, "patience_seconds": 2}
_CHANGES = {**WORLDLY, **TYPED_WORLDLY, **FOLDED_WORLDLY, **FOREIGN}
"""What may happen at a boundary."""
SAVED: dict[str, Events] = {
    "saved after one run": SETUPS["later run"],
    "saved after two runs": (*SETUPS["later run"], ("save_ledger",)),
}
"""When a ledger was backed up that is put back."""
ERASERS: dict[str, Event] = {
    "erasure of later ones": ("erase", 1, 1),
    "erasure of later ones at once": ("erase", 1, 3),
    "erasure of changes": ("erase_changes", 1, 0),
    "erasure of whole keys": ("erase_changes", 1, 1),
}
_MORE: Events = (("finish", 0), ("produce", 0, 0, 6))
ERASED_WORLDLY: dict[str, Events] = {
    "nothing": _MORE,
    "the ledger put back": (("restore_ledger",), *_MORE),
    "the ledger put back, and read again": (
        *(("restore_ledger",), ("live", 0), ("finish", 0), ("decide", 0, 0), ("live", 0)),
        *(("finish", 0), ("truncate", 0, 0, 2, 6), ("live", 0), ("finish", 0), ("decide", 0, 1)),
        *_MORE,
    ),
    "restored": (("restore", 1), *_MORE),
    "restored further": (("restore", 3), *_MORE),
    "tables at other addresses": (*_MORE, ("readdress",), ("live", 0), ("finish", 0)),
    "a clear": (*_MORE, ("again", 0, 0), ("finish", 0)),
}
_MOVED: Events = (("readdress",), ("live", 0), ("finish", 0), ("save_ledger",))
ERASED_SETUPS: dict[str, Events] = {
    f"{name}, moved: {n}": (*events, *(_MOVED * n))
    for name, events in FOLDED_SETUPS.items()
    for n in (0, 1)
}
_BEGUN = {**SETUPS, **TYPED_SETUPS, **FOLDED_SETUPS, **SAVED, **ERASED_SETUPS}
_FIRST = PROCESSES | DECODERS | FOLDERS | ERASERS


@dataclass(frozen=True)
class Duel:
    """One exhaustive series: every boundary of a first process.

    Args:
        setup, first, befalls, second: Names of the tables above; `second` may be none.
        worldly: What happens at the boundary besides.
        sleeps: Whether people decide, and all is landed, before the first one goes on.
        saves: Whether the ledger is backed up half way to the boundary.
    """

    setup: str
    first: str
    befalls: str
    second: str | None = None
    worldly: str | None = None
    sleeps: bool = False
    saves: bool = False

    def at(self, boundary: int) -> History:
        """The history in which it happens at a boundary of the first process."""
        events: list[Event] = [*_BEGUN[self.setup], _FIRST[self.first]]
        half = boundary // 2 if self.saves else 0
        events += [("step", 0, half), ("save_ledger",)] if self.saves else []
        events.append(("step", 0, boundary - half))
        events += BEFALLS[self.befalls]
        if self.worldly is not None:
            events += (ERASED_WORLDLY if self.setup in ERASED_SETUPS else _CHANGES)[self.worldly]
        if self.second is not None:
            # The second one is the youngest process that lives.
            work = (_FIRST[self.second], ("finish", 1))
            events += work
            if self.sleeps:
                events += [("decide", 0, boundary % 2), ("decide", 1, boundary % 2)]
                events += [*work, *_LIVE, *_LIVE]
            events.append(("finish", 0))
        return History(boundary, {"t": 1}, _options(self.setup), tuple(events))

    def boundaries(self) -> int:
        """How many the first process has if nothing befalls it."""
        return _boundaries(self.setup, self.first)


def _options(setup: str) -> dict[str, Any]:
    decode: dict[str, Any] = {"value": {"format": "json"}, "quarantine": {"max_share": 1}}
    if setup in FOLDED_SETUPS or setup in ERASED_SETUPS:
        decode["value"] |= {} if setup in ERASED_SETUPS else {"unavailable_value": "?"}
        current = {"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}}
        return {**_OPTIONS, "decode": decode, "current": current}
    return {**_OPTIONS, "decode": decode} if setup in TYPED_SETUPS else _OPTIONS


@lru_cache
def _boundaries(setup: str, first: str) -> int:
    begun = _BEGUN[setup]
    events = (*begun, _FIRST[first], ("finish", 0))
    outcome = play(History(0, {"t": 1}, _options(setup), events))
    return outcome.world.processes[sum(event[0] == "live" for event in begun)].ticks


def _beginnings() -> Iterator[tuple[str, str]]:
    """Setup and first process; before the first run there is none to repeat or to go back to."""
    for setup in SETUPS:
        for first in PROCESSES:
            if setup != "first run" or first not in _ASK_FOR_RUNS:
                yield setup, first


def duels() -> Iterator[Duel]:
    """Every pair of processes with everything that may befall the first."""
    for setup, first in _beginnings():
        for befalls in BEFALLS:
            for second in PROCESSES:
                yield Duel(setup, first, befalls, second)


def surprises() -> Iterator[Duel]:
    """Every process, with one change of the world at each boundary, or a crash right after it."""
    for setup, first in _beginnings():
        for worldly in WORLDLY:
            for befalls in ("nothing", "killed"):
                yield Duel(setup, first, befalls, worldly=worldly)


def sleepers() -> Iterator[Duel]:
    """Every process that stands still while the world changes, and wakes up when all is decided."""
    befalls = "stopped, and its leases run out"
    for setup, first in _beginnings():
        second = "replay" if first.startswith("backfill") else "live"
        for worldly in WORLDLY:
            yield Duel(setup, first, befalls, second, worldly, sleeps=True)


def others() -> Iterator[Duel]:
    """Every process, with something that others do to the table at each boundary; or a crash too.

    Or the process stands still there until people have decided, and others have landed.
    """
    sleeps = "stopped, and its leases run out"
    for first in PROCESSES:
        second = "replay" if first.startswith("backfill") else "live"
        for change in FOREIGN:
            for befalls in ("nothing", "killed"):
                yield Duel("later run", first, befalls, worldly=change)
            yield Duel("later run", first, sleeps, second, change, sleeps=True)


def put_back() -> Iterator[Duel]:
    """Every process, with a backup of the ledger put back at each boundary; or a crash, too."""
    for first in PROCESSES:
        for befalls in ("nothing", "killed"):
            for setup in SAVED:
                yield Duel(setup, first, befalls, worldly="the ledger put back")
            yield Duel("later run", first, befalls, worldly="the ledger put back", saves=True)


def decoders() -> Iterator[Duel]:
    """Who decodes, or has rows of typed tables undone, dies or sleeps while the world changes."""
    for first in (*DECODERS, "live", "replay", "rewind", "rewind to the first", "erasure"):
        for second in (*DECODERS, "live", "rewind to the first", "erasure"):
            for worldly in (*WORLDLY, *TYPED_WORLDLY):
                for befalls in ("killed", "stopped, and its leases run out"):
                    yield Duel(TYPED, first, befalls, second, worldly, sleeps=befalls != "killed")


def folders() -> Iterator[Duel]:
    """Who folds, or changes what is folded, dies or sleeps while the world changes."""
    for first in (*FOLDERS, "redrive", "live", "rewind to the first", "erasure"):
        for second in (*FOLDERS, "redrive", "live", "rewind to the first", "erasure"):
            for worldly in (*WORLDLY, *TYPED_WORLDLY, *FOLDED_WORLDLY):
                for befalls in ("killed", "stopped, and its leases run out"):
                    yield Duel(FOLDED, first, befalls, second, worldly, sleeps=befalls != "killed")


def erasures() -> Iterator[Duel]:
    """Who erases, while a ledger or a table is put back, or tables have been left behind."""
    for setup in ERASED_SETUPS:
        for first in ERASERS:
            for worldly in ERASED_WORLDLY:
                for befalls in ("nothing", "killed"):
                    yield Duel(setup, first, befalls, worldly=worldly)


SERIES = {
    series.__name__: series
    for series in (duels, surprises, sleepers, others, put_back, decoders, folders, erasures)
}


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
