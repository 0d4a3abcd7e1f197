"""The data files of an attempt that no commit names yet: which they are, and what they hold.

Spark's driver writes a manifest when all tasks are done, with the files of those attempts of tasks
that it counts (ADR 28). Other files may lie in the folder, of tasks that failed or were too slow:
they are no part of anything, and go with the next vacuum.

What a file holds, its footer says. The statistics that are committed with it are those that Delta's
own writer would have counted row by row.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction
from pyarrow.fs import FileInfo, FileSelector, PyFileSystem

from tideline.documents import load
from tideline.errors import VerificationFailed
from tideline.model.spark_job import SparkResult
from tideline.model.wording import first_few
from tideline.store.table_files import SMALL_TAIL
from tideline.table.arrays import IDENTITY
from tideline.table.schema import ATTEMPTS, COLUMNS, STATISTICS_COLUMNS, TableChange, partition_in
from tideline.table.statistics import DataFile

MANIFEST = "_files.json"
"""As `ManifestCommitProtocol.java` calls it."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What the tasks of one write have committed.

    Args:
        files: Paths relative to the attempt's folder, with `/`, not URL-encoded.
    """

    files: tuple[str, ...]


def committed_files(
    store: PyFileSystem, change: TableChange, result: SparkResult
) -> tuple[str, ...]:
    """The data files of an attempt: paths relative to the table, not URL-encoded.

    Args:
        change: Says where the files lie.
        result: What Spark has reported; without rows, it may have written nothing.

    Raises:
        VerificationFailed: The manifest is missing, or names what is no data file of the attempt.
    """
    path = f"{change.folder}/{MANIFEST}"
    try:
        with store.open_input_stream(path) as opened:
            manifest = load(Manifest, opened.read(), f"manifest {path}")
    except FileNotFoundError:
        if result.rows:
            raise _refused(change, f"manifest {path} is missing", result) from None
        return ()
    files = tuple(f"{change.folder}/{name}" for name in manifest.files)
    if other := [path for path in files if not _is_data(path)]:
        raise _refused(change, f"{first_few(other, 1)} is no data file by its name", result)
    return files


def _is_data(path: str) -> bool:
    """Delta's readers take nothing for data whose path has a part that begins with `_` or `.`."""
    hidden = any(part.startswith(("_", ".")) for part in path.split("/"))
    return path.endswith(".parquet") and not hidden


def _refused(change: TableChange, what: str, result: SparkResult) -> VerificationFailed:
    return VerificationFailed(
        f"{change.commit_id}: {what}: Spark reported {result.rows} rows; nothing was committed,"
        " clear the task or run again",
        commit_id=change.commit_id,
    )


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """One data file that no commit names yet.

    Args:
        path: Relative to the table, not URL-encoded.
        size: In bytes.
        modified_ms: When it was written, in milliseconds since 1970.
        partition: Values of the table's partition columns.
        statistics: What its footer proves, in Delta's form.
        data: The file itself, where it is small: it is to be counted as well.
        types: Of its columns.
    """

    path: str
    size: int
    modified_ms: int
    partition: Mapping[str, str | None]
    statistics: Mapping[str, Any]
    data: bytes | None = field(default=None, repr=False, compare=False)
    types: pa.Schema = field(default=pa.schema([]), repr=False, compare=False)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.statistics["numRecords"])

    def action(self, *, changes_data: bool = True) -> AddAction:
        """What adds it to the table; in place of files with the same rows, no data changes."""
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
        path: Relative to the table, not URL-encoded.
        partition: Values of the partition columns; from the names of the folders if not given.
    """
    if partition is None:
        partition = partition_in(path)
    with store.open_input_file(path) as opened:
        size = int(opened.size())
        data = opened.read() if size <= SMALL_TAIL else None
        source = opened if data is None else pa.BufferReader(data)
        footer = pq.ParquetFile(source, pre_buffer=False).metadata
    now_ms = int(datetime.now(UTC).timestamp() * 1000)
    statistics, types = _statistics(footer, partition), footer.schema.to_arrow_schema()
    return WrittenFile(path, size, now_ms, partition, statistics, data, types)


def in_place(store: PyFileSystem, sizes: Mapping[str, int | None]) -> frozenset[str]:
    """Which files are there with the size that is said of them.

    Several in an attempt's folder cost one listing of it, any other file a request of its own.

    Args:
        sizes: By path relative to the table, not URL-encoded.
    """
    folders: dict[str, list[str]] = defaultdict(list)
    for path in sizes:
        folders[path.partition("/")[0]].append(path)
    found: list[FileInfo] = []
    for folder, paths in folders.items():
        is_attempt = folder.startswith(ATTEMPTS) and len(paths) > 1
        every = FileSelector(folder, allow_not_found=True, recursive=True)
        found += store.get_file_info(every if is_attempt else paths)
    return frozenset(f.path for f in found if f.is_file and sizes.get(f.path) == f.size)


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
