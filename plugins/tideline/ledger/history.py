"""What a ledger has closed: runs, incidents, heads, rewinds, resolved timestamps.

It only grows. Entries keep the format that they were written in; reading upgrades a copy.
Every method raises `ServiceAway` when the store does not answer, `NewerFormat` for an entry of a
newer version of Tideline, and `UnreadableDocument` for one that is damaged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from tideline.documents import load
from tideline.ledger.port import HistoryEntry, LedgerStore
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.rewind import Closing, Rewind
from tideline.model.run import RunRecord
from tideline.model.window import ResolvedTimestamp

Value = TypeVar("Value")


class LedgerHistory:
    """The history of one stream's ledger.

    Args:
        store: Where it is.
    """

    def __init__(self, store: LedgerStore) -> None:
        self.store = store

    def closed_runs(self) -> Iterator[RunRecord]:
        """Every closed run in the order of closing; reads the whole history."""
        newest = {e.key: e for e in self.store.history("run")}
        for entry in sorted(newest.values(), key=lambda e: e.version):
            yield self._load(RunRecord, entry)

    def closings(self) -> list[Closing]:
        """Every plan of every run by its first closing, oldest first; reads the whole history."""
        found: dict[tuple[str, str | None], Closing] = {}
        for entry in self.store.history("run"):
            record = self._load(RunRecord, entry)
            plan = (record.run_id, record.plan.plan_id if record.plan is not None else None)
            known = found.get(plan) or Closing(entry.version, record, record)
            found[plan] = replace(known, newest=record)
        return sorted(found.values(), key=lambda c: c.version)

    def kept_head(self, key: str) -> Head:
        """The head that the closing of some run left, by its name in the history."""
        return self._load(Head, list(self.store.history("head", key))[-1])

    def rewinds(self) -> list[Rewind]:
        """Every rewind, the unfinished one included, in their order."""
        newest = {e.key: e for e in self.store.history("rewind")}
        return [self._load(Rewind, entry) for entry in newest.values()]

    def closed_incidents(self) -> Iterator[Incident]:
        """Every closed incident in the order of closing; reads the whole history."""
        newest = {e.key: e for e in self.store.history("incident")}
        for entry in sorted(newest.values(), key=lambda e: e.version):
            yield self._load(Incident, entry)

    def instants(self) -> dict[str, ResolvedTimestamp]:
        """What times mean in offsets, as far as they have been resolved (R11), by their keys."""
        newest = {e.key: e for e in self.store.history("instant")}
        return {key: self._load(ResolvedTimestamp, entry) for key, entry in newest.items()}

    def _load(self, kind: type[Value], entry: HistoryEntry) -> Value:
        where = f"{entry.kind} {entry.key} in the history, written by version {entry.version}"
        return load(kind, entry.body, f"ledger {self.store.location}: {where}")
