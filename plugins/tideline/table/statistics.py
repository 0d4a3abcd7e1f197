"""What a data file holds, as far as its statistics prove it; and the footers of files just written.

The statistics that are committed are those that Delta's own writer would have counted row by row.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyarrow.fs import PyFileSystem

from tideline.errors import VerificationFailed
from tideline.model.offsets import (
    CoordinateRange,
    Intervals,
    OffsetRange,
    PartitionIdentity,
    by_log,
)
from tideline.model.spark_job import SparkResult
from tideline.table.schema import COLUMNS, STATISTICS_COLUMNS, TableChange

IDENTITY = ("topic_id", "generation", "partition")
"""The columns that name the log that a row belongs to."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One data file as the transaction log, or its own footer, describes it.

    Args:
        path: As in the table's log: URL-encoded, relative to the table.
        rows: Number of rows.
        constants: Identity columns that have one value in the whole file.
        low: Smallest offset (inclusive); None without statistics.
        high: Largest offset, **inclusive**; None without statistics.
        newest: Largest timestamp, UTC-aware; None without statistics.
        size: In bytes.
        partition: Values of the table's partition columns, as the log writes them.
    """

    path: str
    rows: int
    constants: Mapping[str, str | int]
    low: int | None
    high: int | None
    newest: datetime | None = None
    size: int | None = None
    partition: Mapping[str, str | None] | None = None

    @property
    def identity(self) -> PartitionIdentity | None:
        """The one log that the file's rows belong to; None if there may be several."""
        return None if len(self.constants) < len(IDENTITY) else identity_of(self.constants)


class Coordinates:
    """Planned coordinates: which files may hold rows there, and which rows those are.

    Args:
        ranges: In any order; several per log are allowed.
    """

    def __init__(self, ranges: Iterable[CoordinateRange]) -> None:
        self._wanted = by_log(ranges)
        by_number: dict[int, list[OffsetRange]] = defaultdict(list)
        for identity, intervals in self._wanted.items():
            by_number[identity.partition] += intervals
        self._by_number = {number: _hull(found) for number, found in by_number.items()}
        self._all = _hull([r for found in self._wanted.values() for r in found])

    def of(self, identity: PartitionIdentity) -> Intervals:
        """The offsets that are meant in one log."""
        return self._wanted.get(identity, ())

    def may_be_in(self, file: DataFile) -> bool:
        """Whether a file may have rows there, by its statistics."""
        sole = file.identity
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
        """The offsets of a file, if its statistics prove that each has one row, and lies there.

        Returns:
            None if the file has to be read.
        """
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
        found = np.zeros(len(offsets), dtype=bool)
        for wanted in self.of(identity):
            found |= (offsets >= wanted.start_offset) & (offsets < wanted.end_offset)
        return found


def _hull(ranges: Iterable[OffsetRange]) -> Intervals:
    """The one range from the smallest to the largest offset."""
    found = list(ranges)
    if not found:
        return ()
    return (OffsetRange(min(r.start_offset for r in found), max(r.end_offset for r in found)),)


def identity_of(values: Mapping[str, str | int]) -> PartitionIdentity:
    """The log that values of the three identity columns name."""
    return PartitionIdentity(
        str(values["topic_id"]), int(values["generation"]), int(values["partition"])
    )


def runs(offsets: np.ndarray) -> Intervals:
    """Offsets, in any order and with duplicates, as normalized half-open ranges.

    They are sorted, which takes one look where they are in order, as in most files. `np.unique` of
    NumPy 2.3 and later hashes: for five million offsets that took 4.7 s, and this 0.2 s.
    """
    if not len(offsets):
        return ()
    ordered = np.sort(offsets, kind="stable")
    breaks = np.flatnonzero(np.diff(ordered) > 1)
    starts = ordered[np.concatenate(([0], breaks + 1))]
    ends = ordered[np.concatenate((breaks, [len(ordered) - 1]))] + 1
    return tuple(OffsetRange(int(s), int(e)) for s, e in zip(starts, ends, strict=True))


def copies(offsets: np.ndarray) -> tuple[tuple[OffsetRange, int], ...]:
    """Ranges of offsets that occur more than once, each with its number of surplus rows."""
    ordered = np.sort(offsets, kind="stable")
    surplus = ordered[1:][np.diff(ordered) == 0]
    return tuple(
        (r, int(np.diff(np.searchsorted(surplus, (r.start_offset, r.end_offset)))[0]))
        for r in runs(surplus)
    )


_NULL = "__HIVE_DEFAULT_PARTITION__"
"""What Spark calls the folder of rows without a value; Delta's log has null there."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One data file that no commit names yet.

    Args:
        path: Relative to the table, not URL-encoded.
        size: In bytes.
        modified_ms: When it was written, in milliseconds since 1970.
        partition: Values of the table's partition columns.
        statistics: What its footer proves, in Delta's form.
    """

    path: str
    size: int
    modified_ms: int
    partition: Mapping[str, str | None]
    statistics: Mapping[str, Any]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.statistics["numRecords"])

    @property
    def action(self) -> AddAction:
        """What adds it to the table, with rows that were not there."""
        return self._add(changes_data=True)

    @property
    def moving_action(self) -> AddAction:
        """What adds it in place of files with the same rows."""
        return self._add(changes_data=False)

    def _add(self, *, changes_data: bool) -> AddAction:
        return AddAction(
            self.path,
            self.size,
            self.partition,
            self.modified_ms,
            changes_data,
            json.dumps(self.statistics),
        )

    @property
    def data_file(self) -> DataFile:
        """The same as the table's log would describe it; nothing that its footer does not prove."""
        bounds = {name: self._bounds(name) for name in (*IDENTITY, "offset")}
        low, high = bounds.pop("offset")
        constants = {
            name: low for name, (low, high) in bounds.items() if low is not None and low == high
        }
        return DataFile(quote(self.path), self.rows, constants, low, high)

    @property
    def nulls(self) -> int:
        """How many coordinates are missing, as far as the footer says."""
        return sum(self.statistics["nullCount"].get(name, 0) for name in (*IDENTITY, "offset"))

    def _bounds(self, name: str) -> tuple[Any, Any]:
        if name in self.partition:
            return self.partition[name], self.partition[name]
        if self.statistics["nullCount"].get(name) != 0:
            return None, None
        return self.statistics["minValues"].get(name), self.statistics["maxValues"].get(name)


def read_footer(
    store: PyFileSystem, path: str, partition: Mapping[str, str | None] | None = None
) -> WrittenFile:
    """One data file.

    Args:
        store: The table's.
        path: Relative to the table, not URL-encoded.
        partition: Values of the partition columns; from the names of the folders if not given.

    Raises:
        OSError: It is not there, or cannot be read.
        ArrowInvalid: It is no whole Parquet file.
    """
    if partition is None:
        folders = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
        partition = {n: None if value == _NULL else unquote(value) for n, _, value in folders}
    with store.open_input_file(path) as opened:
        size = int(opened.size())
        footer = pq.ParquetFile(opened, pre_buffer=False).metadata
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    return WrittenFile(path, size, now_ms, partition, _statistics(footer, partition))


def refuse_other_count(
    change: TableChange, result: SparkResult, files: Sequence[WrittenFile]
) -> None:
    """Hold the rows in the footers against those that Spark counted.

    Raises:
        VerificationFailed: The numbers differ, or a row has no coordinates.
    """
    rows = sum(f.rows for f in files)
    without = sum(f.nulls for f in files)
    if rows != result.rows or without:
        problem = f"; {without} coordinates in them are missing" if without else ""
        raise VerificationFailed(
            f"{change.commit_id}: Spark counted {result.rows} rows while it wrote them, its"
            f" {len(files)} data files hold {rows}{problem}; nothing was committed, clear the task"
            " or run again",
            commit_id=change.commit_id,
        )


def _statistics(footer: pq.FileMetaData, partition: Mapping[str, str | None]) -> dict[str, Any]:
    """The statistics of a file in Delta's form; what a row group does not say is left out.

    Parquet's writers leave out bounds, and the number of nulls with them, where bounds are long.
    """
    lows, highs, nulls = {}, {}, {}
    columns = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    for name in [n for n in COLUMNS if n not in partition][:STATISTICS_COLUMNS]:
        if name not in columns:  # an array: Delta has only null counts of its leaves
            continue
        groups = [
            footer.row_group(n).column(columns[name]).statistics
            for n in range(footer.num_row_groups)
        ]
        if not groups or not all(g is not None and g.has_null_count for g in groups):
            continue
        nulls[name] = sum(g.null_count for g in groups)
        if COLUMNS[name] == "BINARY" or not all(g.has_min_max for g in groups):
            continue
        convert = _instant if COLUMNS[name] == "TIMESTAMP" else _same
        low = convert(min(g.min_raw for g in groups))
        high = convert(max(g.max_raw for g in groups))
        if low is not None and high is not None:
            lows[name], highs[name] = low, high
    return {
        "numRecords": footer.num_rows,
        "minValues": lows,
        "maxValues": highs,
        "nullCount": nulls,
    }


def _same(value: int | bytes) -> int | str:
    return value.decode() if isinstance(value, bytes) else value


def _instant(microseconds: int) -> str | None:
    """The time in Delta's form; None after year 9999, if a producer does not send milliseconds."""
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
