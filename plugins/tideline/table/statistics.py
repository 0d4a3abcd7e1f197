"""A table's data files, and which offsets of which logs their statistics prove.

One log, and as many rows as offsets between the smallest and the largest: then each offset has one
row, and nobody has to read the file. Statistics name their largest value (inclusive ends); ranges
are half-open from here on (ADR 1).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from tideline.delta.delta_checkpoint import stats_of
from tideline.delta.delta_io import from_delta, microseconds
from tideline.model.offsets import CoordinateRange, Intervals, OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.table.arrays import IDENTITY, identity_of
from tideline.table.schema import ATTEMPTS

_INTEGER = re.compile(r"[+-]?[0-9]+")
_CUT = 32
"""Characters of a text that bounds have at least, whoever has written them."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file as the transaction log, or its own footer, describes it.

    Args:
        path: As in the table's log: URL-encoded, relative to the table.
        rows: Number of rows; None where the log does not say.
        constants: Identity columns that have one value in the whole file.
        low: Smallest offset (inclusive); None without statistics.
        high: Largest offset, **inclusive**; None without statistics.
        newest: Largest timestamp, UTC-aware; None without statistics.
        size: In bytes.
        partition: Values of the table's partition columns, as the log writes them.
        topic_hint: How the topic id begins that all rows seem to have; no proof. None for several.
    """

    path: str
    rows: int | None
    constants: Mapping[str, str | int]
    low: int | None
    high: int | None
    newest: datetime | None = None
    size: int | None = None
    partition: Mapping[str, str | None] | None = None
    topic_hint: str | None = None

    @property
    def identity(self) -> PartitionIdentity | None:
        """The one log that the file's rows belong to; None if there may be several."""
        return None if len(self.constants) < len(IDENTITY) else identity_of(self.constants)

    @property
    def by_its_rows(self) -> DataFile:
        """The same file, with the values of its partition as the only constants.

        Those are not in the file itself. Its statistics are somebody's word.
        """
        given = self.partition or {}
        return replace(self, constants={k: v for k, v in self.constants.items() if k in given})


def described_files(table: DeltaTable) -> Iterator[DataFile]:
    """The data files of one version, in the log's order, as delta-rs has them."""
    actions = from_delta(table.get_add_actions(flatten=True))
    partition_columns = table.metadata().partition_columns
    # A producer that does not send milliseconds gives years that no datetime holds.
    times = [field.name for field in actions.schema if pa.types.is_timestamp(field.type)]
    newest: list[datetime | None] = [None] * len(actions)
    if "max.timestamp" in times:
        newest = [_instant(us) for us in microseconds(actions.column("max.timestamp"))]
    for action, latest in zip(actions.drop(times).to_pylist(), newest, strict=True):
        partition = {
            name: None if (value := action[f"partition.{name}"]) is None else str(value)
            for name in partition_columns
        }
        yield _described(action, latest, partition)


def logged_file(
    action: Mapping[str, Any], types: Mapping[str, object], partition_columns: Sequence[str]
) -> DataFile:
    """A data file as an `add` of the log describes it.

    Args:
        types: Of the table's columns, in Delta's words.
        partition_columns: The table's, in its order; each writer of the log has one of its own.
    """
    stats = stats_of(action.get("stats"))
    flat = {
        "path": action["path"],
        "size_bytes": action["size"],
        "num_records": stats.get("numRecords"),
    }
    for name, prefix in (("minValues", "min"), ("maxValues", "max"), ("nullCount", "null_count")):
        flat |= {f"{prefix}.{column}": value for column, value in stats[name].items()}
    # An empty text is null (Delta protocol, "Partition Value Serialization").
    given = {name: text or None for name, text in action["partitionValues"].items()}
    partition = {name: given.get(name) for name in partition_columns}
    for column, text in partition.items():
        is_number = text is not None and types.get(column) in ("integer", "long")
        is_number = is_number and _INTEGER.fullmatch(str(text)) is not None
        flat[f"partition.{column}"] = int(str(text)) if is_number else text
    is_time = types.get("timestamp") == "timestamp"
    latest = _time(flat.get("max.timestamp")) if is_time else None
    return _described(flat, latest, partition)


def _described(
    action: Mapping[str, Any], newest: datetime | None, partition: Mapping[str, str | None]
) -> DataFile:
    """A data file by an `add` with flat names, as delta-rs gives them."""
    return DataFile(
        path=action["path"],
        rows=_integer(action.get("num_records")),
        constants=dict(_constants(action)),
        low=_number(action, "min.offset"),
        high=_number(action, "max.offset"),
        newest=newest,
        size=action["size_bytes"],
        partition=partition,
        topic_hint=_topic_hint(action),
    )


def _time(text: Any) -> datetime | None:
    """A time as statistics have it (Delta protocol, "Per-file Statistics")."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:  # there is none, or it is after year 9999
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _constants(action: Mapping[str, Any]) -> Iterator[tuple[str, str | int]]:
    """The identity columns that have one value in the whole file.

    The bounds of a text may be cut (Delta protocol, "Per-file Statistics"). We cut none, and nobody
    else writes into an attempt's folder.
    """
    for name in IDENTITY:
        kind = str if name == "topic_id" else int
        given, is_ours = action.get(f"partition.{name}"), action["path"].startswith(ATTEMPTS)
        low, high = (_bound(action, f"{end}.{name}") for end in ("min", "max"))
        if isinstance(given, kind):
            yield name, given
        elif isinstance(low, kind) and low == high and (kind is int or is_ours):
            yield name, low


def _topic_hint(action: Mapping[str, Any]) -> str | None:
    """How the ids of all topics in a file begin, as far as Spark's Delta keeps a text's bounds."""
    given = action.get("partition.topic_id")
    low, high = (given or _bound(action, f"{end}.topic_id") for end in ("min", "max"))
    same = isinstance(low, str) and isinstance(high, str) and low[:_CUT] == high[:_CUT]
    return str(low)[:_CUT] if same else None


def _bound(action: Mapping[str, Any], name: str) -> Any:
    """A bound of a column without nulls; a table of others may have any type there."""
    nulls = action.get(f"null_count.{name.partition('.')[2]}")
    return action.get(name) if nulls == 0 else None


def _number(action: Mapping[str, Any], name: str) -> int | None:
    return _integer(_bound(action, name))


def _integer(value: Any) -> int | None:
    """A number of statistics; what is none proves nothing."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _instant(since_1970: int | None) -> datetime | None:
    if since_1970 is None:
        return None
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=since_1970)
    except OverflowError:
        return None


class Coordinates:
    """Planned coordinates: which files may hold rows there, and which rows those are.

    Args:
        ranges: In any order; several per log are allowed.
    """

    def __init__(self, ranges: Iterable[CoordinateRange]) -> None:
        self._wanted = Places.of(ranges)
        self._bounds: dict[PartitionIdentity, tuple[np.ndarray, np.ndarray]] = {}
        by_number: dict[int, list[OffsetRange]] = defaultdict(list)
        for identity, intervals in self._wanted.items():
            by_number[identity.partition] += intervals
        self._by_number = {number: _bounding_range(found) for number, found in by_number.items()}
        self._generations = {identity.generation for identity in self._wanted}
        self._all = _bounding_range([r for found in self._wanted.values() for r in found])

    def of(self, identity: PartitionIdentity) -> Intervals:
        """The offsets that are meant in one log."""
        return self._wanted[identity]

    def may_be_in(self, file: DataFile) -> bool:
        """Whether a file may have rows there, by its statistics."""
        sole = file.identity
        generation = file.constants.get("generation")
        if generation is not None and int(generation) not in self._generations:
            return False
        if sole is not None:
            near = self.of(sole)
        elif "partition" in file.constants:
            near = self._by_number.get(int(file.constants["partition"]), ())
        else:
            near = self._all
        if file.low is None or file.high is None:
            return bool(near)
        return any(file.low < r.end_offset and file.high >= r.start_offset for r in near)

    def proven(self, file: DataFile) -> OffsetRange | None:
        """The offsets of a file, if its statistics prove that each has one row, and lies there."""
        if file.low is None or file.high is None or file.rows != file.high - file.low + 1:
            return None
        return OffsetRange(file.low, file.high + 1) if self.hold_all_of(file) else None

    def hold_all_of(self, file: DataFile) -> bool:
        """Whether statistics prove that all rows of a file are at these coordinates."""
        sole, low, high = file.identity, file.low, file.high
        if sole is None or low is None or high is None:
            return False
        return any(r.start_offset <= low and high < r.end_offset for r in self.of(sole))

    def mask(self, identity: PartitionIdentity, offsets: np.ndarray) -> np.ndarray:
        """Which of some offsets of one log are meant."""
        if identity not in self._bounds:
            wanted = self.of(identity)  # disjoint, in order
            starts, ends = ([r.start_offset for r in wanted], [r.end_offset for r in wanted])
            self._bounds[identity] = (np.array(starts, np.int64), np.array(ends, np.int64))
        starting, ending = self._bounds[identity]
        if not len(starting):
            return np.zeros(len(offsets), dtype=bool)
        nearest = np.searchsorted(starting, offsets, side="right") - 1
        inside: np.ndarray = (nearest >= 0) & (offsets < ending[np.maximum(nearest, 0)])
        return inside


def _bounding_range(ranges: Iterable[OffsetRange]) -> Intervals:
    """The one range from the smallest to the largest offset."""
    found = list(ranges)
    if not found:
        return ()
    return (OffsetRange(min(r.start_offset for r in found), max(r.end_offset for r in found)),)
