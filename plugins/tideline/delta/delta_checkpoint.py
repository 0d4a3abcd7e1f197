"""A checkpoint of a Delta log, as this project reads and writes it.

The form is that of Delta's protocol ("Checkpoints", "Checkpoint Schema"). What changes a table's
meaning and is not known here is refused: side files, deletion vectors, newer protocols. What other
writers have besides is not read: statistics as columns, for one, where they stand as text as well.
"""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tideline.delta.delta_properties import DELETED, DELETED_HOURS, kept_ms
from tideline.model.table_features import ELSEWHERE

_INTERVAL = 100
"""Commits between checkpoints, where the table does not say (delta-rs' default)."""
_READER, _WRITER = 1, 2
_BY_FEATURES = (3, 7)
"""Of readers and of writers: the versions of the protocol that name features."""
_FEATURES = {"appendOnly", "invariants", "timestampNtz", "variantType"}
"""Those that change nothing in what a log says; what they ask of a writer is asked elsewhere."""
_PAIRS = ("partitionValues", "configuration", "options")
_IN_COLUMNS = ("path", "stats_parsed")
_TIMES = {
    pa.timestamp("us", "UTC"): ("us", "Z", pa.int64()),
    pa.timestamp("us"): ("us", "", pa.int64()),
    pa.date32(): ("D", "", pa.int32()),
}
"""NumPy's unit, the mark of the zone, and what is counted; nobody writes others."""
_ABSOLUTE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]+:/|/")
"""How the path of a file begins that does not lie below its table."""
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
        given = self.properties.get("delta.checkpointInterval") or ""
        return int(given) if re.fullmatch(r"0*[1-9][0-9]{0,8}", given) else _INTERVAL

    @property
    def properties(self) -> Mapping[str, str | None]:
        """The table's."""
        return self.others["metaData"].get("configuration") or {}

    @property
    def place(self) -> tuple[int, str | None]:
        """Version and tag: another log at the address has another one."""
        return self.version, self.tag


class NotUnderstood(Exception):
    """The log says something that this reader does not know."""


class DamagedLog(NotUnderstood):
    """The log is not as any writer leaves it."""


class DisputedLog(DamagedLog):
    """Damaged so that readers go on, and not each of them with the rows that were committed."""


class FilesElsewhere(NotUnderstood):
    """Files of another table are part of this one, at their absolute paths."""


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


def refuse_unreadable(adds: Mapping[str, Action]) -> None:
    """Refuse files that cannot be read as files of this table.

    Raises:
        NotUnderstood: One has a deletion vector.
        FilesElsewhere: One lies elsewhere.
    """
    for path, action in adds.items():
        if action.get("deletionVector") is not None:
            raise NotUnderstood("a file has a deletion vector")
        if _ABSOLUTE.match(path):
            raise FilesElsewhere(f"{ELSEWHERE}, as in a shallow clone: {path}")


def read_checkpoint(version: int, body: bytes) -> LogState:
    """What a checkpoint says of a version: of each action the fields that are known here.

    Raises:
        NotUnderstood: It has what is not known here.
    """
    parquet = pq.ParquetFile(io.BytesIO(body))
    for name in {*parquet.schema_arrow.names} - {*_CHECKPOINT.names}:  # delta-rs has empty ones
        column = parquet.read(columns=[name], use_threads=False).column(name)
        if column.null_count < len(column):
            raise NotUnderstood(f"the checkpoint has {name}")
    adds, others = dict[str, Action](), dict[str, Action]()
    for name in ("protocol", "metaData", "txn"):
        for action in _actions(parquet, name):
            others[f"txn:{action['appId']}" if name == "txn" else name] = action
    refuse_unknown(others)
    for action in _actions(parquet, "add", "deletionVector.storageType"):
        adds[action["path"]] = action
    refuse_unreadable(adds)
    if any(action.get("stats") is None for action in adds.values()):
        for path, stats in _stats_in_columns(parquet):
            if stats and adds[path].get("stats") is None:
                adds[path] = {**adds[path], "stats": json.dumps(stats, separators=(",", ":"))}
    return LogState(version, None, adds, expiring=body, others=others)


def _actions(parquet: pq.ParquetFile, kind: str, *more: str) -> Iterator[dict[str, Any]]:
    """The actions of a kind, with the fields that are known here, and more that are asked for."""
    if kind not in parquet.schema_arrow.names:
        return
    fields = [f"{kind}.{name}" for name in (*_CHECKPOINT.field(kind).type.names, *more)]
    found = parquet.read(columns=fields, use_threads=False)
    for action in found.column(kind).to_pylist() if found.num_columns else ():
        if action is not None:
            yield _without_pairs(action)


def _stats_in_columns(parquet: pq.ParquetFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """Statistics that stand in columns, by the path of their file."""
    found = parquet.read(columns=["add.path", "add.stats_parsed"], use_threads=False)
    file = found.column("add").combine_chunks()
    if file.type.get_field_index("stats_parsed") >= 0:
        paths, stats = (file.flatten()[file.type.get_field_index(n)] for n in _IN_COLUMNS)
        yield from (pair for pair in zip(paths.to_pylist(), _plain(stats), strict=True) if pair[0])


def _plain(array: pa.Array) -> list[Any]:
    """Values as statistics have them in JSON; None, which is no bound, where there is no exact one.

    Times go by way of NumPy: Python's own end with the year 9999.
    """
    kind = array.type
    if pa.types.is_struct(kind):
        columns = {f.name: _plain(a) for f, a in zip(kind, array.flatten(), strict=True)}
        rows = ({n: c[i] for n, c in columns.items()} for i in range(len(array)))
        return [{n: v for n, v in row.items() if v not in (None, {})} for row in rows]
    if kind in _TIMES:
        unit, zone, counted = _TIMES[kind]
        numbers = np.array(array.view(counted).to_pylist(), f"datetime64[{unit}]")
        return [None if t == "NaT" else f"{t}{zone}" for t in np.datetime_as_string(numbers)]
    if pa.types.is_floating(kind):
        return [n if n is not None and math.isfinite(n) else None for n in array.to_pylist()]
    is_exact = pa.types.is_integer(kind) or kind in (pa.bool_(), pa.string())
    return array.to_pylist() if is_exact else [None] * len(array)


def stats_of(text: str | None) -> dict[str, Any]:
    """A file's statistics with all their parts; what is not Delta's form says nothing."""
    try:
        found = json.loads(text or "{}")
    except (ValueError, TypeError, RecursionError):
        found = {}
    known = found if isinstance(found, dict) else {}
    parts = {name: known.get(name) for name in ("minValues", "maxValues", "nullCount")}
    return known | {name: part if isinstance(part, dict) else {} for name, part in parts.items()}


def write_checkpoint(state: LogState, now_ms: int) -> tuple[bytes, int]:
    """A state as the bytes of its checkpoint, and how many rows it has.

    Args:
        now_ms: The time now, in milliseconds since 1970.
    """
    kept = kept_ms(state.properties, DELETED, DELETED_HOURS)
    since = 0 if kept is None else now_ms - kept  # what is not understood may mean for ever
    # A file that has come back is part of the table: as both, a reader may take it for gone.
    gone = {r["path"]: r for r in (*_expiring(state.expiring), *state.removes)}
    removes = [
        action
        for path, action in gone.items()
        if path not in state.adds and (action.get("deletionTimestamp") or 0) > since
    ]
    rows = [{name: state.others[name]} for name in ("protocol", "metaData")]
    rows += [{"txn": a} for name, a in state.others.items() if name.startswith("txn:")]
    rows += [{"add": a} for a in state.adds.values()]
    rows += [{"remove": r} for r in removes]
    buffer = io.BytesIO()
    pq.write_table(_table(rows), buffer, compression="zstd")
    return buffer.getvalue(), len(rows)


def _expiring(checkpoint: bytes | None) -> Iterator[Action]:
    """Files that a checkpoint says were taken out."""
    if checkpoint is not None:
        yield from _actions(pq.ParquetFile(io.BytesIO(checkpoint)), "remove")


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
        if name in _PAIRS and isinstance(value, dict)
        else _with_pairs(value)
        if isinstance(value, dict)
        else value
        for name, value in row.items()
    }


def _without_pairs(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: dict(value)
        if name in _PAIRS and value is not None
        else _without_pairs(value)
        if isinstance(value, dict)
        else value
        for name, value in row.items()
    }
