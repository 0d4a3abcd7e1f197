"""A long history in a ledger, without the runs that would make it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from unittest.mock import patch

from tideline.documents import dump
from tideline.ledger import delta_store
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger_port import HistoryEntry
from tideline.model.run import RunRecord


def closed_run(number: int) -> HistoryEntry:
    """The history entry of a closed run that found nothing to do."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    record = RunRecord(f"run-{number:08}", "live", "nothing_to_do", "digest", at)
    return HistoryEntry("run", record.run_id, dump(record), number)


def fabricate(store: DeltaLedgerStore, slot: str, entries: Sequence[HistoryEntry]) -> None:
    """Write entries under one key, merged as normal operation leaves them.

    Args:
        store: The ledger's.
        slot: The document's key.
        entries: What is merged under it.
    """
    with patch.object(delta_store, "segment_key", lambda *_: slot):
        store.commit(store.read(), put={}, history=entries)
