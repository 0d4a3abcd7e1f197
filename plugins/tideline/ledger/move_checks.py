"""What a move finds out before it copies: formats it knows, and history the target lacks."""

from __future__ import annotations

import hashlib
from collections import defaultdict, deque
from collections.abc import Iterator
from itertools import chain

from tideline.documents import refuse_newer
from tideline.errors import BadInput
from tideline.ledger.port import HISTORY_KINDS, HistoryEntry, LedgerStore, Snapshot


def refuse_newer_formats(store: LedgerStore, snapshot: Snapshot, *, history: bool = False) -> None:
    """Make sure that this version reads every format in a store.

    Args:
        store: The source or the target of a move.
        snapshot: Its documents.
        history: Whether to check the whole history as well, which reads it once more.

    Raises:
        NewerFormat: A newer version of Tideline wrote there.
        UnreadableDocument: A document or entry is damaged.
    """
    for key, body in snapshot.documents.items():
        refuse_newer(body, f"ledger {store.location}: document {key}")
    for entry in _whole_history(store) if history else ():
        where = f"{entry.kind} {entry.key} in the history, written by version {entry.version}"
        refuse_newer(entry.body, f"ledger {store.location}: {where}")


def missing_entries(leaving: LedgerStore, arriving: LedgerStore) -> list[HistoryEntry]:
    """The entries of the source's history that the target does not have yet.

    Raises:
        BadInput: The target's history is not the beginning of the source's.
    """
    there: dict[tuple[str, str], deque[bytes]] = defaultdict(deque)
    for entry in _whole_history(arriving):
        there[entry.kind, entry.key].append(_digest(entry))
    missing = []
    for entry in _whole_history(leaving):
        known = there[entry.kind, entry.key]
        if not known:
            missing.append(entry)
        elif known.popleft() != _digest(entry):
            raise _other_history(arriving, entry.kind, entry.key)
    for (kind, key), unknown in there.items():
        if unknown:
            raise _other_history(arriving, kind, key)
    return missing


def _whole_history(store: LedgerStore) -> Iterator[HistoryEntry]:
    return chain.from_iterable(store.history(kind) for kind in HISTORY_KINDS)


def _digest(entry: HistoryEntry) -> bytes:
    return hashlib.sha256(f"{entry.version} {entry.body}".encode()).digest()


def _other_history(store: LedgerStore, kind: str, key: str) -> BadInput:
    return BadInput(
        f"ledger {store.location}: history differs at {kind} {key}: the target is not an earlier"
        " copy of this ledger; give another address (--at)",
        ledger=store.location,
    )
