"""The ledger as a small Delta table, through delta-rs: no JVM, next to the data.

One row is one document; the partition column `slot` is its key (`delta_documents`). A commit is
one Delta transaction that removes the files of replaced documents and adds the new ones, with a
transaction id of our own. Two commits from one version carry the same id, and the second fails
("Concurrent transaction failed"): that is the compare-and-swap. Reading the state opens the
state's files only, so it costs O(partitions), however long the history is.

A history copied from another location has larger versions than this table has commits. The
document `ahead`, a plain number, says by how much the ledger's version is ahead of the table's.
Without conditional put in the object store, one race remains, inside delta-rs.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from deltalake import DeltaTable
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction

from tideline.errors import BadInput, CommitConflict
from tideline.ledger.delta_documents import (
    COMMITS_PER_TIDY,
    HISTORY,
    SCHEMA,
    LedgerFiles,
    active_files,
    commit_files,
    may_hold_kind,
    removal,
    segment_key,
)
from tideline.ledger.port import HistoryEntry, Snapshot

log = logging.getLogger("tideline")
_AHEAD = "ahead"
_CONFIGURATION: dict[str, str | None] = {
    "delta.checkpointInterval": "50",
    "delta.logRetentionDuration": "interval 1 days",
}


class DeltaLedgerStore:
    """Documents and history in one Delta table.

    Args:
        uri: Address of the ledger's own table.
        storage_options: delta-rs options of the object store.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self._uri = uri
        self._options = dict(storage_options or {})
        self._files = LedgerFiles(uri, self._options)
        self._table: DeltaTable | None = None
        self._ahead = 0
        self._bodies: dict[str, str] = {}

    @property
    def location(self) -> str:
        """Address of the ledger's table."""
        return self._uri

    def read(self) -> Snapshot:
        """All documents at the newest version."""
        table = self._open()
        if table is None:
            return Snapshot(-1, {})
        active = {p: key for p, key in active_files(table) if not key.startswith(HISTORY)}
        # A file never changes, and a run reads the same few several times.
        self._bodies = {
            path: self._bodies.get(path) or self._files.read(table, path)[0].body for path in active
        }
        documents = {key: self._bodies[path] for path, key in active.items()}
        self._ahead = int(documents.pop(_AHEAD, 0))
        return Snapshot(table.version() + self._ahead, documents)

    def commit(
        self,
        base: Snapshot,
        *,
        put: Mapping[str, str],
        drop: Iterable[str] = (),
        history: Iterable[HistoryEntry] = (),
    ) -> None:
        """Replace, remove and append in one Delta transaction."""
        ahead = self._ahead if base.version >= 0 else 0
        table = self._table if base.version >= 0 else self._create()
        if table is None or table.version() != max(base.version - ahead, 0):
            raise CommitConflict(f"{self._uri}: the ledger is no longer at version {base.version}")
        history = list(history)
        newest = max((e.version for e in history), default=-1)
        if newest > table.version() + 1 + ahead:
            ahead = newest - table.version() - 1
            put = {**put, _AHEAD: str(ahead)}
        version = table.version() + 1
        replaced = {*put, *drop}
        actions: list[AddAction | RemoveAction] = [
            removal(path, key) for path, key in active_files(table) if key in replaced
        ]
        for key, body in put.items():
            entry = HistoryEntry("state", key, body, version)
            actions.append(self._files.write(table, key, [entry]))
        closed: dict[str, list[HistoryEntry]] = defaultdict(list)
        for e in history:
            given = e.version if e.version >= 0 else version + ahead
            closed[e.kind].append(replace(e, version=given))
        for kind, entries in closed.items():
            actions.append(self._files.write(table, segment_key(kind, version), entries))
        try:
            commit_files(table, actions, "tideline-ledger")
        except delta_errors.CommitFailedError as error:
            raise CommitConflict(f"{self._uri}: another writer was first: {error}") from error
        except (delta_errors.DeltaError, OSError) as error:
            raise self._files.away(error) from error
        if version % COMMITS_PER_TIDY == 0:
            tidied = self._open()
            if tidied is not None:
                self._files.tidy(tidied, version)

    def history(self, kind: str, key: str | None = None) -> Iterator[HistoryEntry]:
        """Closed records of a kind, oldest version first."""
        table = self._open()
        if table is None:
            return
        found = []
        for path, segment in active_files(table, key):
            if may_hold_kind(segment, kind):
                found += [
                    entry
                    for entry in self._files.read(table, path, key)
                    if entry.kind == kind and key in (None, entry.key)
                ]
        yield from sorted(found, key=lambda e: e.version)

    def _open(self) -> DeltaTable | None:
        try:
            if self._table is None:
                self._table = DeltaTable(self._uri, storage_options=self._options)
            else:
                self._table.update_incremental()
        except delta_errors.TableNotFoundError:
            self._table = None
        except (delta_errors.DeltaError, OSError) as error:
            self._table = None
            raise self._files.away(error) from error
        return self._table

    def _create(self) -> DeltaTable:
        try:
            self._table = DeltaTable.create(
                self._uri,
                SCHEMA,
                mode="error",
                partition_by=["slot"],
                configuration=_CONFIGURATION,
                storage_options=self._options,
            )
        except delta_errors.TableNotFoundError as error:
            first_line = str(error).splitlines()[0]
            raise BadInput(
                f"ledger {self._uri}: the address cannot be used: {first_line}; correct"
                " table.uri or ledger_uri, or grant access to it",
                ledger=self._uri,
            ) from error
        except delta_errors.DeltaError as error:
            table = self._open()
            if table is None:
                raise self._files.away(error) from error
            raise CommitConflict(f"{self._uri}: another writer created the ledger") from error
        except OSError as error:
            raise self._files.away(error) from error
        return self._table
