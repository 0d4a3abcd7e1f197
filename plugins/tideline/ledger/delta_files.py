"""The data files of a ledger's Delta table, and the objects of delta-rs to reach them through.

The partition column `slot` (a stored name; it holds document keys) says what a file contains:

    control, head, mark, run:<run id>   the state: one row each, replaced as a whole
    ahead                               see `delta_store`
    history:<kind>:<n>                  a segment: the closed records of 1,000 commits
    history:<kind>:v<n>                 a compacted segment: a hundred of them, sorted by key
    history:<n>                         a segment of all kinds, in ledgers begun before ADR 12

Every opening of the table lists its files, so their number has to stay small: it grows with every
hundred thousand commits. Row group statistics find one record in a compacted segment.

Tidying goes through delta-rs, and so does everything where our own client of the log cannot be. A
table object is a table at one version, and whoever uses it may move it to a newer one. delta-rs
checks a commit for conflicts from the object's version on. So nobody may move the object between
a commit's own check and the commit: no two callers, and no two threads, ever hold the same one.
"""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake import exceptions as delta_errors
from deltalake.transaction import AddAction, RemoveAction

from tideline.delta_io import (
    SMALL_BYTES,
    from_columns,
    from_delta,
    instants,
    parquet_bytes,
    read_commit,
    read_parquet,
    write_parquet,
)
from tideline.delta_log import COMMIT_ID, STORE_ERRORS, DeltaLog
from tideline.errors import ServiceAway, TidelineError
from tideline.ledger.port import HistoryEntry
from tideline.store.probe import refuse_web_pages
from tideline.store.refusals import plain_text, refusal

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
COMMITS_PER_SEGMENT = 1000
SEGMENTS_PER_COMPACTED = 100
_OBJECTS_KEPT = 2
"""The run's, and that of the thread that renews its lease."""


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


def active_files(table: DeltaTable, key: str | None = None) -> Iterator[tuple[str, str]]:
    """Paths of active files and their document keys.

    Args:
        key: Leave out segments whose statistics exclude this record's key; None for all files.
    """
    actions = from_delta(table.get_add_actions(flatten=True))
    columns = {
        name: actions.column(name).to_pylist()
        for name in ("path", "partition.slot", "min.key", "max.key")
        if name in actions.column_names
    }
    lows = columns.get("min.key") or [None] * len(actions)
    highs = columns.get("max.key") or [None] * len(actions)
    for path, document_key, low, high in zip(
        columns["path"], columns["partition.slot"], lows, highs, strict=True
    ):
        if key is None or low is None or high is None or low <= key <= high:
            yield path, document_key


def described_files(table: DeltaTable) -> Iterator[tuple[str, str, int, str | None]]:
    """Path, document key, size and Delta's statistics of each active file."""
    actions = from_delta(table.get_add_actions(flatten=True))
    lows, highs = (
        actions.column(n).to_pylist() if n in actions.column_names else [None] * len(actions)
        for n in ("min.key", "max.key")
    )
    columns = [actions.column(n).to_pylist() for n in ("path", "partition.slot", "size_bytes")]
    for path, key, size, low, high in zip(*columns, lows, highs, strict=True):
        stats = {"minValues": {"key": low}, "maxValues": {"key": high}}
        yield path, key, size, json.dumps(stats)


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

    def commit(
        self, table: DeltaTable, actions: Sequence[AddAction | RemoveAction], app_id: str
    ) -> None:
        """Add and remove files in one Delta transaction.

        Each has an id of its own: where the answer of the store was lost, the log tells whether it
        was committed.

        Args:
            table: At the version that the actions were made from.
            app_id: Delta transaction app id: of two commits from one version with the same id,
                Delta refuses the second.
        """
        base, commit_id = table.version(), uuid.uuid4().hex
        properties = CommitProperties(
            app_transactions=[Transaction(app_id, base + 1)],
            custom_metadata={"tideline": "ledger", COMMIT_ID: commit_id},
        )
        try:
            table.create_write_transaction(
                list(actions), "append", SCHEMA, partition_by=["slot"], commit_properties=properties
            )
        except (delta_errors.DeltaError, OSError):
            if not self._is_committed(commit_id, base):
                raise
            log.info("ledger %s: only the answer to a commit was lost", self._uri)

    def _is_committed(self, commit_id: str, after_version: int) -> bool:
        version = after_version + 1
        while (actions := read_commit(self._uri, version, self._options)) is not None:
            if any(a.get("commitInfo", {}).get(COMMIT_ID) == commit_id for a in actions):
                return True
            version += 1
        return False

    def failure(self, error: Exception) -> TidelineError:
        """The error for a store that fails: retriable, unless it refuses us for good."""
        return refusal(self._uri, self._options, error) or ServiceAway(
            f"ledger {self._uri} cannot be used: {type(error).__name__}: {plain_text(error)};"
            " nothing moved, try again when its store is back",
            ledger=self._uri,
        )


class LedgerTables:
    """Lends table objects. Opening one costs some ten times what moving it on does: they are kept.

    Args:
        failure: Makes the error for a store that fails.
    """

    def __init__(
        self, uri: str, options: Mapping[str, str], failure: Callable[[Exception], TidelineError]
    ) -> None:
        self._uri = uri
        self._options = dict(options)
        self._failure = failure
        self._idle: deque[DeltaTable] = deque(maxlen=_OBJECTS_KEPT)  # its methods are atomic

    @contextmanager
    def newest(self) -> Iterator[DeltaTable | None]:
        """A table at its newest version; None where there is no table. Errors as `at_least`."""
        with self.at_least(None) as table:
            yield table

    @contextmanager
    def at_least(self, version: int | None) -> Iterator[DeltaTable | None]:
        """A table that is no older than a version; None where there is no table.

        Args:
            version: An object that has it is not moved and costs no request; None asks for the
                newest version.

        Raises:
            ServiceAway: The store does not answer.
        """
        table = self._take()
        try:
            if table is not None and (version is None or table.version() < version):
                table = self._moved_on(table)
            if table is None:
                table = DeltaTable(self._uri, storage_options=self._options)
        except delta_errors.TableNotFoundError:
            refuse_web_pages(self._uri, self._options)
            table = None
        except (delta_errors.DeltaError, OSError) as error:
            raise self._failure(error) from error
        yield table
        if table is not None:
            self.keep(table)  # not after an error: nobody knows what state it is in

    def is_in_log(self, version: int, table: DeltaTable, files: Collection[str]) -> bool:
        """Whether the log still has, at a version, the commit that an object of it stands on.

        If a backup was put back, the log may have come to that version again, with other files. No
        object that is kept is lent again then.

        Args:
            files: The object's, at that version.
        """
        actions = read_commit(self._uri, version, self._options)
        added = (unquote(a["add"]["path"]) for a in actions or () if "add" in a)
        if actions is not None and {*added} <= {*map(unquote, files)}:
            return True
        self._idle.clear()
        return False

    def _moved_on(self, table: DeltaTable) -> DeltaTable | None:
        """The object, at the newest version; None if it stood on what is no more."""
        version, files = table.version(), [path for path, _ in active_files(table)]
        table.update_incremental()
        if table.version() == version or self.is_in_log(version, table, files):
            return table
        return None

    def keep(self, table: DeltaTable) -> None:
        """Lend a table object to others from now on; its holder must not use it any more."""
        self._idle.append(table)

    def _take(self) -> DeltaTable | None:
        try:
            return self._idle.pop()
        except IndexError:
            return None
