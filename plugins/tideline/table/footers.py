"""Data files that Spark has written into an attempt's folder, as their footers describe them.

The statistics that are committed are those that Delta's own writer would have counted row by row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyarrow.fs import PyFileSystem

from tideline.errors import VerificationFailed
from tideline.launch.job import SparkResult
from tideline.table.change import TableChange
from tideline.table.file_statistics import IDENTITY, DataFile
from tideline.table.schema import COLUMNS, STATISTICS_COLUMNS

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
