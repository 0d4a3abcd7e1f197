"""A checkpoint of a Delta log, as this project reads and writes it.

The form is that of Delta's protocol ("Checkpoints", "Checkpoint Schema"). What is not known here is
refused: side files, deletion vectors, newer protocols.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_INTERVAL = 100
"""Commits between checkpoints, where the table does not say (delta-rs' default)."""
_KEEP_MS = 7 * 24 * 3600 * 1000
"""So long a file that was taken out stays in checkpoints (`delta.deletedFileRetentionDuration`)."""
_READER, _WRITER = 1, 2
_BY_FEATURES = (3, 7)
"""Of readers and of writers: the versions of the protocol that name features."""
_FEATURES = {"appendOnly", "invariants", "timestampNtz", "variantType"}
"""Those that change nothing in what a log says; what they ask of a writer is asked elsewhere."""
_PAIRS = ("partitionValues", "configuration", "options")
_TEXTS = pa.map_(pa.string(), pa.string())
_FILE = [("path", pa.string()), ("partitionValues", _TEXTS), ("size", pa.int64())]
_ADD = pa.struct(
    [
        *_FILE,
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
    ]
)
_REMOVE = pa.struct(
    [
        *_FILE,
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
    ]
)
_CHECKPOINT = pa.schema(
    [
        ("txn", pa.struct([("appId", pa.string()), ("version", pa.int64())])),
        ("add", _ADD),
        ("remove", _REMOVE),
        (
            "metaData",
            pa.struct(
                [
                    ("id", pa.string()),
                    ("name", pa.string()),
                    ("description", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("createdTime", pa.int64()),
                    ("configuration", _TEXTS),
                ]
            ),
        ),
        (
            "protocol",
            pa.struct(
                [
                    ("minReaderVersion", pa.int32()),
                    ("minWriterVersion", pa.int32()),
                    ("readerFeatures", pa.list_(pa.string())),
                    ("writerFeatures", pa.list_(pa.string())),
                ]
            ),
        ),
    ]
)
Action = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class LogState:
    """A table as its log has it at one version; never changed.

    Args:
        version: Of its newest commit.
        tag: The store's tag of that commit's object: of another log at the address it is another.
        adds: Files that are part of the table, by their path in the log.
        removes: Files that were taken out since the checkpoint.
        expiring: The checkpoint that names those of before, as it is; None without one.
        others: The newest of each other action, by its kind; transactions by application.
    """

    version: int
    tag: str | None
    adds: Mapping[str, Action]
    removes: tuple[Action, ...] = ()
    expiring: bytes | None = None
    others: Mapping[str, Action] = field(default_factory=dict)

    @property
    def is_due(self) -> bool:
        """Whether a checkpoint is, by the table's own property."""
        return self.version % self.interval == 0

    @property
    def interval(self) -> int:
        """After how many commits there is a checkpoint."""
        given = self.others["metaData"].get("configuration") or {}
        return int(given.get("delta.checkpointInterval", _INTERVAL))

    @property
    def place(self) -> tuple[int, str | None]:
        """Version and tag: another log at the address has another one."""
        return self.version, self.tag


class NotUnderstood(Exception):
    """The log says something that this reader does not know."""


def refuse_unknown(others: Mapping[str, Action]) -> None:
    """Refuse a table that asks for more than is done here.

    Raises:
        NotUnderstood: Its protocol is newer.
    """
    protocol = others.get("protocol", {})
    asked = (protocol.get("minReaderVersion", 0), protocol.get("minWriterVersion", 0))
    known = zip(asked, (_READER, _WRITER), _BY_FEATURES, strict=True)
    features = {*(protocol.get("readerFeatures") or ()), *(protocol.get("writerFeatures") or ())}
    if any(a > most and a != named for a, most, named in known) or not features <= _FEATURES:
        names = ", ".join(sorted(features - _FEATURES))
        raise NotUnderstood(f"the table's protocol is {asked[0]} and {asked[1]} {names}".rstrip())


def read_checkpoint(version: int, body: bytes) -> LogState:
    """What a checkpoint says of a version.

    Raises:
        NotUnderstood: It has what is not known here.
    """
    parquet = pq.ParquetFile(io.BytesIO(body))
    names = [name for name in parquet.schema_arrow.names if name != "remove"]
    table = parquet.read(columns=names, use_threads=False)
    for name in {*table.column_names} - {*_CHECKPOINT.names}:  # delta-rs has some that are empty
        if table.column(name).null_count < len(table):
            raise NotUnderstood(f"the checkpoint has {name}")
    adds, others = dict[str, Action](), dict[str, Action]()
    for name in ("protocol", "metaData", "txn", "add"):
        for action in table.column(name).to_pylist() if name in table.column_names else ():
            if action is None:
                continue
            known = _without_pairs(action)
            if name == "add":
                adds[known["path"]] = known
            else:
                others[f"txn:{known['appId']}" if name == "txn" else name] = known
    refuse_unknown(others)
    if any(action.get("deletionVector") for action in adds.values()):
        raise NotUnderstood("a file has a deletion vector")
    return LogState(version, None, adds, expiring=body, others=others)


def write_checkpoint(state: LogState, now_ms: int) -> tuple[bytes, int]:
    """A state as the bytes of its checkpoint, and how many rows it has.

    Args:
        now_ms: The time now, in milliseconds since 1970.
    """
    since = now_ms - _KEEP_MS
    removes = [r for r in state.removes if r.get("deletionTimestamp", 0) > since]
    rows = [{name: state.others[name]} for name in ("protocol", "metaData")]
    rows += [{"txn": a} for name, a in state.others.items() if name.startswith("txn:")]
    rows += [{"add": a} for a in state.adds.values()]
    rows += [{"remove": r} for r in (*removes, *_expiring(state.expiring, since))]
    buffer = io.BytesIO()
    pq.write_table(_table(rows), buffer, compression="zstd")
    return buffer.getvalue(), len(rows)


def _expiring(checkpoint: bytes | None, since: int) -> Iterator[Action]:
    """Files that a checkpoint says were taken out, and that are to be known still."""
    if checkpoint is None:
        return
    parquet = pq.ParquetFile(io.BytesIO(checkpoint))
    if "remove" not in parquet.schema_arrow.names:
        return
    for action in parquet.read(columns=["remove"], use_threads=False).column(0).to_pylist():
        if action is not None and (action["deletionTimestamp"] or 0) > since:
            yield _without_pairs(action)


def _table(rows: Sequence[Action]) -> pa.Table:
    """Rows of a checkpoint. By way of JSON: pyarrow's own conversion imports pandas."""
    import pyarrow.json  # who writes no checkpoint needs none

    text = "\n".join(json.dumps(_with_pairs(row)) for row in rows).encode()
    plain = pa.schema([(f.name, _as_json(f.type)) for f in _CHECKPOINT])
    found = pyarrow.json.read_json(
        io.BytesIO(text),
        read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pyarrow.json.ParseOptions(
            explicit_schema=plain, unexpected_field_behavior="ignore"
        ),
    )
    columns = [_typed(found.column(f.name).combine_chunks(), f.type) for f in _CHECKPOINT]
    return pa.Table.from_arrays(columns, schema=_CHECKPOINT)


def _as_json(kind: pa.DataType) -> pa.DataType:
    """A type with lists of pairs in place of maps."""
    if pa.types.is_map(kind):
        pair = [pa.field("key", kind.key_type, nullable=False), ("value", kind.item_type)]
        return pa.list_(pa.struct(pair))
    if pa.types.is_struct(kind):
        return pa.struct([(f.name, _as_json(f.type)) for f in kind])
    return kind


def _typed(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """An array with maps in place of lists of pairs: in memory both are the same."""
    if pa.types.is_map(kind):
        pairs = pa.struct([kind.key_field, kind.item_field])
        parts, children = array.buffers()[:2], [_typed(array.values, pairs)]
    elif pa.types.is_struct(kind):
        parts = array.buffers()[:1]
        children = [_typed(array.field(n), f.type) for n, f in enumerate(kind)]
    else:
        return array
    return pa.Array.from_buffers(kind, len(array), parts, array.null_count, 0, children)


def _with_pairs(row: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON that becomes Arrow's maps: lists of pairs."""
    return {
        name: [{"key": k, "value": v} for k, v in value.items()]
        if name in ("partitionValues", "configuration", "options") and isinstance(value, dict)
        else _with_pairs(value)
        if isinstance(value, dict)
        else value
        for name, value in row.items()
    }


def _without_pairs(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: dict(value)
        if name in ("partitionValues", "configuration", "options") and value is not None
        else _without_pairs(value)
        if isinstance(value, dict)
        else value
        for name, value in row.items()
    }
