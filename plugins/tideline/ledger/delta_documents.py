"""The data files of a ledger's Delta table: what a slot is, how one is written, read and merged.

    control, head, run:<run id>     the state: one row each, replaced as a whole
    history:<kind>:<n>              closed records, 1,000 commits to a slot, never replaced
    history:<kind>:v<n>             a volume: a hundred such slots bound together, sorted by key
    history:<n>                     all kinds, in ledgers begun before decision 12

So the number of files, which every opening of the table has to list, grows with the hundred
thousands of commits only, and one record in a volume is found through the file's own statistics.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction

from tideline.delta_io.arrow_tables import from_columns, from_delta, instants
from tideline.delta_io.parquet_files import read_parquet, write_parquet
from tideline.errors import ServiceAway
from tideline.ledger.port import HistoryEntry

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
SCHEMA = pa.schema([pa.field("slot", pa.string()), *_COLUMNS])
HISTORY = "history:"
COMMITS_PER_TIDY = 200
_COMMITS_PER_SLOT = 1000
_SLOTS_PER_VOLUME = 100
_KEEP_HOURS = 24


def history_slot(kind: str, version: int) -> str:
    """Where closed records of a kind go in the commit of a version."""
    return f"{HISTORY}{kind}:{_number(version)}"


def may_hold_kind(slot: str, kind: str) -> bool:
    """Whether a slot is one of a kind's history."""
    return slot.startswith(f"{HISTORY}{kind}:") or (
        slot.startswith(HISTORY) and slot.count(":") == 1
    )


def active_files(table: DeltaTable, key: str | None = None) -> Iterator[tuple[str, str]]:
    """Active files and their slots; with a key, only history files that may hold it."""
    actions = from_delta(table.get_add_actions(flatten=True))
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


def removal(path: str, slot: str) -> RemoveAction:
    """Take a file out of the table; delta-rs encodes the path itself."""
    return RemoveAction(unquote(path), True, int(time.time() * 1000), None, {"slot": slot})


def commit_files(
    table: DeltaTable, actions: Sequence[AddAction | RemoveAction], app_id: str
) -> None:
    """Add and remove files in one Delta transaction.

    Args:
        table: The ledger's table, at the version that the actions were made from.
        actions: Files to add and to take out.
        app_id: Of two commits from one version with the same id, Delta refuses the second.

    Raises:
        CommitFailedError: Somebody else was first.
    """
    properties = CommitProperties(
        app_transactions=[Transaction(app_id, table.version() + 1)],
        custom_metadata={"tideline": "ledger"},
    )
    table.create_write_transaction(
        list(actions), "append", SCHEMA, partition_by=["slot"], commit_properties=properties
    )


class LedgerFiles:
    """Writes and reads the data files.

    Args:
        uri: Address of the ledger's own table.
        options: delta-rs options of the object store.
    """

    def __init__(self, uri: str, options: Mapping[str, str]) -> None:
        self._uri = uri
        self._options = options

    def write(self, table: DeltaTable, slot: str, entries: list[HistoryEntry]) -> AddAction:
        """Write a file, which becomes part of the table by the action that comes back.

        Raises:
            ServiceAway: The store does not take it.
        """
        rows = from_columns(
            {
                "kind": [e.kind for e in entries],
                "key": [e.key for e in entries],
                "version": [e.version for e in entries],
                "recorded_at": [e.recorded_at or datetime.now(UTC) for e in entries],
                "body": [e.body for e in entries],
            },
            _COLUMNS,
        )
        path = f"{slot.partition(':')[0]}-{uuid.uuid4().hex}.parquet"
        try:
            size = write_parquet(table, path, rows, self._options)
        except OSError as error:
            raise self.away(error) from error
        keys = sorted(e.key for e in entries)
        stats = {
            "numRecords": len(entries),
            "minValues": {"key": keys[0]},
            "maxValues": {"key": keys[-1]},
            "nullCount": {"key": 0},
        }
        now = int(time.time() * 1000)
        return AddAction(path, size, {"slot": slot}, now, True, json.dumps(stats))

    def read(self, table: DeltaTable, path: str, key: str | None = None) -> list[HistoryEntry]:
        """A file's records; with a key, only the part of a long file that may hold it.

        Raises:
            ServiceAway: The store does not give it.
        """
        holding = None if key is None else ("key", key)
        try:
            found = read_parquet(table, path, _COLUMNS.names, self._options, holding=holding)
        except OSError as error:
            raise self.away(error) from error
        recorded = instants(found.column("recorded_at"))
        return [
            HistoryEntry(**row, recorded_at=at)
            for row, at in zip(found.drop("recorded_at").to_pylist(), recorded, strict=True)
        ]

    def away(self, error: Exception) -> ServiceAway:
        """What a failing store is to a run."""
        return ServiceAway(
            f"ledger {self._uri} cannot be used: {type(error).__name__}: {error};"
            " nothing moved, try again when its store is back",
            ledger=self._uri,
        )

    def tidy(self, table: DeltaTable, version: int) -> None:
        """Merge small history files and delete what was replaced a day ago; never fails a run.

        Args:
            table: The ledger's table.
            version: That of the last commit.
        """
        recent = {_number(version), _number(max(0, version - COMMITS_PER_TIDY))}
        slots = {slot for _, slot in active_files(table) if slot.startswith(HISTORY)}
        try:
            for slot in sorted(s for s in slots if s.rpartition(":")[2] in recent):
                table.optimize.compact(partition_filters=[("slot", "=", slot)])
            self.bind(table)
            table.vacuum(_KEEP_HOURS, dry_run=False, enforce_retention_duration=False)
        except (delta_errors.DeltaError, ServiceAway, OSError) as error:
            log.warning("ledger %s was not tidied: %s", self._uri, error)

    def bind(self, table: DeltaTable) -> None:
        """Bind one past volume, if there is one.

        Raises:
            DeltaError: Somebody else binds it at the same time.
        """
        current = _volume(table.version() // _COMMITS_PER_SLOT)
        loose: dict[tuple[str, int], list[tuple[str, str]]] = defaultdict(list)
        for path, slot in active_files(table):
            _, kind, number = slot.split(":") if slot.count(":") == 2 else ("", "", "")
            if slot.startswith(HISTORY) and number.isdecimal():
                loose[kind, _volume(int(number))].append((path, slot))
        past = sorted(volume for volume in loose if volume[1] < current)
        if not past:
            return
        kind, volume = past[0]
        files = loose[kind, volume]
        entries: list[HistoryEntry] = []
        for path, _ in files:
            entries += self.read(table, path)
        entries.sort(key=lambda e: (e.key, e.version))
        actions: list[AddAction | RemoveAction] = [removal(path, slot) for path, slot in files]
        actions.append(self.write(table, f"{HISTORY}{kind}:v{volume:06d}", entries))
        commit_files(table, actions, f"tideline-volume-{kind}-{volume}")


def _number(version: int) -> str:
    return f"{version // _COMMITS_PER_SLOT:08d}"


def _volume(slot_number: int) -> int:
    return slot_number // _SLOTS_PER_VOLUME
