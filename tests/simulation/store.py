"""A ledger's documents and history in memory: `LedgerStore`."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from tideline.errors import CommitConflict, ServiceAway
from tideline.ledger.ledger_port import HistoryEntry, Snapshot


@dataclass
class StoreState:
    """What stands at one location.

    Args:
        version: -1 before the first commit.
        newest: The largest version that any commit has made, also one that a backup took back.
        lost_answers: How many of the next commits happen, and nobody hears of it.
        away: How many of the next calls meet a store that does not answer.
        committed: Called after each commit.
    """

    version: int = -1
    newest: int = -1
    documents: dict[str, str] = field(default_factory=dict)
    history: dict[str, list[HistoryEntry]] = field(default_factory=lambda: defaultdict(list))
    lost_answers: int = 0
    away: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    committed: Callable[[], None] = lambda: None

    def copy(self) -> StoreState:
        """A backup."""
        copied = StoreState(self.version, documents=dict(self.documents))
        copied.history.update({kind: [*entries] for kind, entries in self.history.items()})
        return copied

    def put_back(self, saved: StoreState) -> None:
        """Be what a backup holds."""
        copied = saved.copy()
        self.version, self.documents = copied.version, copied.documents
        self.history = copied.history


class MemoryStore:
    """`LedgerStore` on a state that others may share.

    Args:
        state: The documents.
        location: For messages.
        tick: Called before and after each access, with a label.
        now: The time.
    """

    def __init__(
        self,
        state: StoreState,
        location: str = "memory",
        tick: Callable[[str], None] = lambda label: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._state = state
        self._location = location
        self._tick = tick
        self._now = now

    @property
    def location(self) -> str:
        """Where it is."""
        return self._location

    def read(self) -> Snapshot:
        """All documents of one moment."""
        self._tick("store.read")
        self._refuse_away()
        with self._state.lock:
            return Snapshot(self._state.version, dict(self._state.documents))

    def commit(
        self,
        base: Snapshot,
        *,
        put: Mapping[str, str],
        drop: Iterable[str] = (),
        history: Iterable[HistoryEntry] = (),
    ) -> Snapshot:
        """All of it, if nobody else was first."""
        self._tick("store.commit<")
        self._refuse_away()
        state = self._state
        with state.lock:
            if base.version != state.version:
                raise CommitConflict(f"{self._location} is at version {state.version} by now")
            state.version = max(state.version, state.newest) + 1  # never one a second time
            dropped = set(drop)
            kept = {k: v for k, v in state.documents.items() if k not in dropped}
            state.documents = {**kept, **put}
            for entry in history:
                version = state.version if entry.version < 0 else entry.version
                at = self._now() if entry.recorded_at is None else entry.recorded_at
                state.history[entry.kind].append(replace(entry, version=version, recorded_at=at))
                state.version = max(state.version, version)
            state.newest = state.version
            made = Snapshot(state.version, dict(state.documents))
        state.committed()
        if state.lost_answers:
            state.lost_answers -= 1
            raise ServiceAway(f"{self._location} did not answer")
        self._tick("store.commit>")
        return made

    def history(
        self, kind: str, key: str | None = None, at: Snapshot | None = None
    ) -> Iterator[HistoryEntry]:
        """Entries of a kind, smallest version first."""
        self._tick("store.history")
        self._refuse_away()
        entries = [e for e in self._state.history[kind] if key is None or e.key == key]
        return iter(sorted(entries, key=lambda e: e.version))

    def recent(self, kind: str) -> Iterator[HistoryEntry]:
        """Entries of a kind, largest version first."""
        return reversed(list(self.history(kind)))

    def _refuse_away(self) -> None:
        if self._state.away:
            self._state.away -= 1
            raise ServiceAway(f"{self._location} does not answer")
