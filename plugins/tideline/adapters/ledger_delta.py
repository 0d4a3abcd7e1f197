"""The ledger as a small Delta table, through delta-rs: no JVM, next to the data.

One row is one document. The partition column `slot` names what the row is:

    control, head, run:<run id>     the state: one row each, replaced as a whole
    history:<kind>:<n>              closed records, 1,000 commits to a slot, never replaced
                                    (history:<n>, all kinds, in ledgers begun before 0012)

A commit is one Delta transaction that removes the replaced documents' files and adds the new
ones, with a transaction id of our own. Two commits from one version carry the same id, and the
second fails ("Concurrent transaction failed"): that is the compare-and-swap. Reading the state
opens the state's files only, so it costs O(partitions) however long the history is.

A history that was brought here from another home has larger versions than this table has had
commits. The document `ahead` says by how much ours are counted ahead of the table's.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction

from tideline.adapters.delta_files import read_parquet, write_parquet
from tideline.errors import BadInput, CommitConflict, ServiceAway
from tideline.ports import HistoryEntry, Snapshot

log = logging.getLogger("tideline")
_COLUMNS = pa.schema(
    [
        pa.field("kind", pa.string()),
        pa.field("key", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("recorded_at", pa.timestamp("us", tz="UTC")),
        pa.field("body", pa.string()),
    ]
)
_SCHEMA = pa.schema([pa.field("slot", pa.string()), *_COLUMNS])
_HISTORY = "history:"
_AHEAD = "ahead"
_COMMITS_PER_SLOT = 1000
_COMMITS_PER_TIDY = 200
_KEEP_HOURS = 24
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
        self._table: DeltaTable | None = None
        self._ahead = 0

    @property
    def location(self) -> str:
        """Address of the ledger's table."""
        return self._uri

    def read(self) -> Snapshot:
        """All documents at the newest version."""
        table = self._open()
        if table is None:
            return Snapshot(-1, {})
        documents = {
            slot: str(self._rows(table, path)[0]["body"])
            for path, slot in _files(table)
            if not slot.startswith(_HISTORY)
        }
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
        now = int(time.time() * 1000)
        actions: list[AddAction | RemoveAction] = [
            RemoveAction(path, True, now, None, {"slot": slot})
            for path, slot in _files(table)
            if slot in replaced
        ]
        for slot, body in put.items():
            actions.append(self._add(table, slot, [HistoryEntry("state", slot, body, version)]))
        closed: dict[str, list[HistoryEntry]] = defaultdict(list)
        for e in history:
            given = e.version if e.version >= 0 else version + ahead
            closed[e.kind].append(replace(e, version=given))
        for kind, entries in closed.items():
            actions.append(self._add(table, _history_slot(kind, version), entries))
        properties = CommitProperties(
            app_transactions=[Transaction("tideline-ledger", version)],
            custom_metadata={"tideline": "ledger"},
        )
        try:
            table.create_write_transaction(
                actions, "append", _SCHEMA, partition_by=["slot"], commit_properties=properties
            )
        except delta_errors.CommitFailedError as error:
            raise CommitConflict(f"{self._uri}: somebody else wrote first: {error}") from error
        except (delta_errors.DeltaError, OSError) as error:
            raise self._away(error) from error
        if version % _COMMITS_PER_TIDY == 0:
            self._tidy(version)

    def _tidy(self, version: int) -> None:
        """Merge small history files and delete what was replaced a day ago; never fails a run."""
        table = self._open()
        if table is None:
            return
        recent = {_number(version), _number(max(0, version - _COMMITS_PER_TIDY))}
        slots = {slot for _, slot in _files(table) if slot.startswith(_HISTORY)}
        try:
            for slot in sorted(s for s in slots if s.rpartition(":")[2] in recent):
                table.optimize.compact(partition_filters=[("slot", "=", slot)])
            table.vacuum(_KEEP_HOURS, dry_run=False, enforce_retention_duration=False)
        except (delta_errors.DeltaError, OSError) as error:
            log.warning("ledger %s was not tidied: %s", self._uri, error)

    def history(self, kind: str, key: str | None = None) -> Iterator[HistoryEntry]:
        """Closed records of a kind, oldest version first."""
        table = self._open()
        if table is None:
            return
        found = []
        for path, slot in _files(table, key):
            if slot.startswith(f"{_HISTORY}{kind}:") or _holds_all_kinds(slot):
                found += [
                    HistoryEntry(**row)
                    for row in self._rows(table, path)
                    if row["kind"] == kind and key in (None, row["key"])
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
            raise self._away(error) from error
        return self._table

    def _create(self) -> DeltaTable:
        try:
            self._table = DeltaTable.create(
                self._uri,
                _SCHEMA,
                mode="error",
                partition_by=["slot"],
                configuration=_CONFIGURATION,
                storage_options=self._options,
            )
        except delta_errors.TableNotFoundError as error:
            first_line = str(error).splitlines()[0]
            raise BadInput(
                f"ledger {self._uri}: the address cannot be used: {first_line}; correct"
                " table.uri or ledger_uri, or give the rights",
                ledger=self._uri,
            ) from error
        except delta_errors.DeltaError as error:
            table = self._open()
            if table is None:
                raise self._away(error) from error
            raise CommitConflict(f"{self._uri}: somebody else created the ledger") from error
        except OSError as error:
            raise self._away(error) from error
        return self._table

    def _add(self, table: DeltaTable, slot: str, entries: list[HistoryEntry]) -> AddAction:
        rows = pa.Table.from_pylist(
            [
                {
                    "kind": e.kind,
                    "key": e.key,
                    "version": e.version,
                    "recorded_at": e.recorded_at or datetime.now(UTC),
                    "body": e.body,
                }
                for e in entries
            ],
            schema=_COLUMNS,
        )
        path = f"{slot.partition(':')[0]}-{uuid.uuid4().hex}.parquet"
        try:
            size = write_parquet(table, path, rows, self._options)
        except OSError as error:
            raise self._away(error) from error
        keys = sorted(e.key for e in entries)
        stats = {
            "numRecords": len(entries),
            "minValues": {"key": keys[0]},
            "maxValues": {"key": keys[-1]},
            "nullCount": {"key": 0},
        }
        now = int(time.time() * 1000)
        return AddAction(path, size, {"slot": slot}, now, True, json.dumps(stats))

    def _rows(self, table: DeltaTable, path: str) -> list[dict[str, Any]]:
        try:
            found = read_parquet(table, path, _COLUMNS.names, self._options)
        except OSError as error:
            raise self._away(error) from error
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def _away(self, error: Exception) -> ServiceAway:
        return ServiceAway(
            f"ledger {self._uri} cannot be used: {type(error).__name__}: {error};"
            " nothing moved, try again when its store is back",
            ledger=self._uri,
        )


def _history_slot(kind: str, version: int) -> str:
    return f"{_HISTORY}{kind}:{_number(version)}"


def _number(version: int) -> str:
    return f"{version // _COMMITS_PER_SLOT:08d}"


def _holds_all_kinds(slot: str) -> bool:
    return slot.startswith(_HISTORY) and slot.count(":") == 1


def _files(table: DeltaTable, key: str | None = None) -> Iterator[tuple[str, str]]:
    """Active files and their slots; with a key, only history files that may hold it."""
    actions = pa.table(table.get_add_actions(flatten=True))
    columns = {
        name: actions.column(name).to_pylist()
        for name in ("path", "partition.slot", "min.key", "max.key")
        if name in actions.column_names
    }
    lows = columns.get("min.key") or [None] * len(actions)
    highs = columns.get("max.key") or [None] * len(actions)
    for path, slot, low, high in zip(
        columns["path"], columns["partition.slot"], lows, highs, strict=True
    ):
        if key is None or low is None or high is None or low <= key <= high:
            yield path, slot
