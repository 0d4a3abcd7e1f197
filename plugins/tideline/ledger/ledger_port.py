"""What the ledger needs of a store: documents replaced by compare-and-swap, and a history.

Documents are kept by key; all of them together are the ledger's state (`snapshots.DOCUMENTS`). The
history is kept by kind and key: entries are appended and never changed, and the last of a key
counts (`history.ENTRIES`). Bodies are JSON with a format number (`tideline.documents`). A store
keeps them as they are and never looks inside. "mark" and "instant" are stored names of before;
they stay.

`retry_conflicts` repeats a compare-and-swap that somebody else won.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from tideline.errors import CommitConflict

CONTROL, HEAD, DECODING, FOLDING = "control", "head", "decoding", "folding"
ERASING = "erasing"
RUN_PREFIX, MARKER = "run:", "mark"
"""Keys of documents."""


class DocKind(NamedTuple):
    """A document of the state, or a kind of the history's entries.

    Args:
        name: The document's key, or the entries' kind.
        meaning: What people are told about it.
        key: What an entry's key is; empty for a document of the state.
        named: Gives an entry's key.
    """

    name: str
    document: type
    meaning: str
    key: str = ""
    named: Callable[[Any], str] = str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All documents of a ledger at one version.

    Args:
        version: Grows with every commit; -1 when there is no ledger yet.
        documents: Bodies by key; empty when there is no ledger yet.
        basis: What the store that read it needs to commit on it; nobody else looks inside.
    """

    version: int
    documents: Mapping[str, str]
    basis: object = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One record in the history.

    Args:
        kind: One of `history.KINDS`.
        key: Which record of that kind; several entries may share it.
        version: The commit that wrote it; -1 for the commit that is about to.
        recorded_at: When it was first written, UTC-aware; None for now.
    """

    kind: str
    key: str
    body: str
    version: int = -1
    recorded_at: datetime | None = None


class LedgerStore(Protocol):
    """One ledger's documents and history in some storage. Threads may share it.

    A commit is held against the snapshot that it names. Nothing that the same object reads or
    commits in between, in whatever thread, changes what that commit replaces or is checked against.

    Every method may raise `ServiceAway` (the storage does not answer; retriable) and `BadInput`
    (its address, rights or tables have to be corrected by a person).
    """

    @property
    def location(self) -> str:
        """Where the ledger is, for messages; contains no secret."""

    def read(self) -> Snapshot:
        """All documents at the newest version, of one moment.

        Returns:
            Version -1 and no documents where there is no ledger; nothing is created.
        """

    def commit(
        self,
        base: Snapshot,
        *,
        put: Mapping[str, str],
        drop: Iterable[str] = (),
        history: Iterable[HistoryEntry] = (),
    ) -> Snapshot | None:
        """Replace, remove and append in one step: all of it or nothing.

        Args:
            base: What `read` returned; the first commit, on version -1, creates the ledger.
            put: Bodies by key, new or replaced.
            drop: Keys to remove; those that are not there are ignored.
            history: Entries to append. One that has a version keeps it (it comes from another
                location); later commits get larger versions.

        Returns:
            What stands then, for a next commit; None where it has to be read.

        Raises:
            CommitConflict: The ledger is no longer at `base.version`; nothing was written.
            ServiceAway: The storage does not answer; whether it has committed is unknown.
        """

    def history(
        self, kind: str, key: str | None = None, at: Snapshot | None = None
    ) -> Iterator[HistoryEntry]:
        """Entries of a kind, smallest version first.

        Args:
            key: Only entries of this key, found without reading the others; None for all.
            at: What was just read: later entries may be left out; None looks for them.
        """

    def recent(self, kind: str) -> Iterator[HistoryEntry]:
        """Entries of a kind, largest version first; who stops early has read little of them."""


Result = TypeVar("Result")


def retry_conflicts(attempt: Callable[[], Result], tries: int) -> Result:
    """Call until no other writer is first, with a growing random pause in between.

    A loop and not tenacity: tasks that ask the cluster nothing do not load Kafka's client, and
    tenacity with it; its import costs them more (about 30 ms) than it would save here.

    Args:
        attempt: Reads, decides and commits; called again from its start.
        tries: At most that many calls.
    """
    for number in range(1, tries + 1):
        try:
            return attempt()
        except CommitConflict as conflict:
            last = conflict
            time.sleep(random.uniform(0.01, 0.05) * number)
    raise last
