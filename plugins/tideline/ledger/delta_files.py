"""The data files of a ledger's Delta table.

The partition column `slot` (a stored name; it holds document keys) says what a file contains:

    control, head, mark, run:<run id>   the state: one row each, replaced as a whole
    ahead                               see `delta_store`
    history:<kind>:<n>                  a segment: the closed records of 1,000 commits
    history:<kind>:v<n>                 a compacted segment: a hundred of them, sorted by key
    history:<n>                         a segment of all kinds, in ledgers begun before ADR 12

Every opening of the table lists its files, so their number has to stay small: it grows with every
hundred thousand commits. Row group statistics find one record in a compacted segment.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import unquote

import pyarrow as pa
from deltalake.transaction import AddAction, RemoveAction

from tideline.delta.delta_io import (
    SMALL_BYTES,
    from_columns,
    instants,
    parquet_bytes,
    read_parquet,
    write_parquet,
)
from tideline.delta.delta_log import STORE_ERRORS, DeltaLog
from tideline.errors import ServiceAway, TidelineError
from tideline.ledger.ledger_port import HistoryEntry
from tideline.store.store_refusals import plain_text, refusal

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
COMMITS_PER_SEGMENT = 1000
SEGMENTS_PER_COMPACTED = 100


def segment_key(kind: str, version: int) -> str:
    """The segment that takes the closed records of a kind in the commit of a version."""
    return f"{HISTORY}{kind}:{version // COMMITS_PER_SEGMENT:08d}"


def compacted_key(kind: str, group: int) -> str:
    """The compacted segment of a group; "v" is for volume, the stored word for it."""
    return f"{HISTORY}{kind}:v{group:06d}"


def group_of(segment_number: int) -> int:
    """The group of segments that becomes one compacted segment."""
    return segment_number // SEGMENTS_PER_COMPACTED


def current_group(version: int) -> int:
    """The group that the commits of a version still write into."""
    return group_of(version // COMMITS_PER_SEGMENT)


def may_hold_kind(segment: str, kind: str) -> bool:
    """Whether a segment may contain history of a kind."""
    return segment.startswith(f"{HISTORY}{kind}:") or (
        segment.startswith(HISTORY) and segment.count(":") == 1
    )


def by_age(segments: Iterable[tuple[str, str]]) -> list[list[str]]:
    """The files of one kind's segments, the newest segment's first.

    A compacted segment is as new as the last of those that it was made of, and what is left of
    those belongs to it.
    """
    numbers = [(path, key.rpartition(":")[2]) for path, key in segments]
    compacted = {int(number[1:]) for _, number in numbers if number.startswith("v")}
    found: dict[int, list[str]] = defaultdict(list)
    for path, number in numbers:
        group = int(number[1:]) if number.startswith("v") else group_of(int(number))
        newest = (group + 1) * SEGMENTS_PER_COMPACTED - 1
        found[newest if group in compacted else int(number)].append(path)
    return [found[number] for number in sorted(found, reverse=True)]


def removal(path: str, document_key: str) -> RemoveAction:
    """Take a file out of the table; delta-rs encodes the path itself."""
    return RemoveAction(unquote(path), True, int(time.time() * 1000), None, {"slot": document_key})


class LedgerFiles:
    """Writes and reads the data files; `options` are delta-rs' options of the object store."""

    def __init__(self, uri: str, options: Mapping[str, str], log: DeltaLog | None = None) -> None:
        self._uri = uri
        self._options = options
        self._log = log

    def write(self, document_key: str, entries: list[HistoryEntry]) -> AddAction:
        """Write a file; committing the returned action makes it part of the table.

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
        path = f"{document_key.partition(':')[0]}-{uuid.uuid4().hex}.parquet"
        try:
            if self._log is None:
                size = write_parquet(self._uri, path, rows, self._options)
            else:
                data = parquet_bytes(rows)
                self._log.put(path, data)
                size = len(data)
        except STORE_ERRORS as error:
            raise self.failure(error) from error
        keys = sorted(e.key for e in entries)
        stats = {
            "numRecords": len(entries),
            "minValues": {"key": keys[0]},
            "maxValues": {"key": keys[-1]},
            "nullCount": {"key": 0},
        }
        now = int(time.time() * 1000)
        return AddAction(path, size, {"slot": document_key}, now, True, json.dumps(stats))

    def read(
        self, path: str, key: str | None = None, *, size: int | None = None
    ) -> list[HistoryEntry]:
        """A file's records; with a key, only the row groups that may hold it.

        Args:
            size: Of the file, in bytes; None if unknown. A small one is one request.

        Raises:
            ServiceAway: The store does not return the file.
        """
        holding = None if key is None else {"key": [key]}
        is_small, data = size is not None and size <= SMALL_BYTES, None
        try:
            if self._log is not None and is_small:
                data = self._log.get(unquote(path))
            at = (self._uri, path, _COLUMNS.names, self._options)
            found = read_parquet(*at, holding=holding, data=data)
        except STORE_ERRORS as error:
            raise self.failure(error) from error
        recorded = instants(found.column("recorded_at"))
        return [
            HistoryEntry(**row, recorded_at=at)
            for row, at in zip(found.drop("recorded_at").to_pylist(), recorded, strict=True)
        ]

    def failure(self, error: Exception) -> TidelineError:
        """The error for a store that fails: retriable, unless it refuses us for good."""
        return refusal(self._uri, self._options, error) or ServiceAway(
            f"ledger {self._uri} cannot be used: {type(error).__name__}: {plain_text(error)};"
            " nothing moved, try again when its store is back",
            ledger=self._uri,
        )
