"""What a ledger has closed: runs, incidents, heads, rewinds, instants. Grows, and is only read."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from tideline.json_codec import from_json
from tideline.ledger.port import HistoryEntry, LedgerStore
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.rewind import Closing, Rewind
from tideline.model.run import RunRecord
from tideline.model.window import ResolvedTimestamp


class LedgerHistory:
    """The history of one stream's ledger.

    Args:
        store: Where it is.
    """

    def __init__(self, store: LedgerStore) -> None:
        self.store = store
        self._lock = threading.RLock()  # the keeper of a lease shares the store

    def closed_runs(self) -> Iterator[RunRecord]:
        """Every closed run in the order of closing; reads the whole history."""
        newest = {e.key: e for e in self.store.history("run")}
        for entry in sorted(newest.values(), key=lambda e: e.version):
            yield from_json(RunRecord, entry.body)

    def closings(self) -> list[Closing]:
        """Every run id by its first closing, oldest first; reads the whole history."""
        entries: dict[str, list[HistoryEntry]] = {}
        for entry in self.store.history("run"):
            entries.setdefault(entry.key, []).append(entry)
        return [
            Closing(e[0].version, from_json(RunRecord, e[0].body), from_json(RunRecord, e[-1].body))
            for e in entries.values()
        ]

    def kept_head(self, key: str) -> Head:
        """The head that the closing of some run left, by its name in the history."""
        return from_json(Head, list(self.store.history("head", key))[-1].body)

    def rewinds(self) -> list[Rewind]:
        """Every rewind, the unfinished one included, in their order."""
        newest = {e.key: e for e in self.store.history("rewind")}
        return [from_json(Rewind, newest[key].body) for key in newest]

    def closed_incidents(self) -> Iterator[Incident]:
        """Every closed incident in the order of closing; reads the whole history."""
        newest = {e.key: e for e in self.store.history("incident")}
        for entry in sorted(newest.values(), key=lambda e: e.version):
            yield from_json(Incident, entry.body)

    def instants(self) -> dict[str, ResolvedTimestamp]:
        """What times mean in offsets, as far as they have been resolved (R11), by their keys."""
        with self._lock:
            newest = {e.key: e.body for e in self.store.history("instant")}
        return {key: from_json(ResolvedTimestamp, body) for key, body in newest.items()}
