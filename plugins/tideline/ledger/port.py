"""What the ledger needs of a store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The ledger's documents at one version; -1 when there is no ledger yet."""

    version: int
    documents: Mapping[str, str]


HISTORY_KINDS = ("run", "incident", "instant", "head", "rewind")
"""What the history keeps; each kind is read without touching the others."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A closed record of one of `HISTORY_KINDS`; the newest version of a key counts.

    Args:
        version: The commit that wrote it, and all that it wrote; -1 for the one that will.
        recorded_at: When it was first written; None for now.
    """

    kind: str
    key: str
    body: str
    version: int = -1
    recorded_at: datetime | None = None


class LedgerStore(Protocol):
    """Named documents replaced by compare-and-swap, and an append-only history."""

    @property
    def location(self) -> str:
        """Where the ledger is, for people."""

    def read(self) -> Snapshot:
        """All documents at the newest version.

        Raises:
            ServiceAway: The store cannot be reached.
        """

    def commit(
        self,
        base: Snapshot,
        *,
        put: Mapping[str, str],
        drop: Iterable[str] = (),
        history: Iterable[HistoryEntry] = (),
    ) -> None:
        """Replace, remove and append in one step.

        A history entry that has a version keeps it, as one from another home does; later commits
        get larger ones.

        Raises:
            CommitConflict: The store is no longer at `base.version`; nothing was written.
        """

    def history(self, kind: str, key: str | None = None) -> Iterator[HistoryEntry]:
        """Closed records of a kind, oldest version first; of one key, or of all."""
