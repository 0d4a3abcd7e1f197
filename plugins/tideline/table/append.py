"""Commit the data files that Spark has written into a table's folder.

Parquet footers tell what the files hold. The statistics that are committed here are those that
Delta's own writer would have counted row by row. The files keep Spark's names and folders.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.fs import DeltaStorageHandler
from deltalake.transaction import AddAction
from pyarrow.fs import FileInfo, FileSelector, PyFileSystem

from tideline.errors import VerificationFailed
from tideline.launch.job import SparkJob
from tideline.table.create import table_schema
from tideline.table.schema import COLUMNS, STATISTICS_COLUMNS, landing_folder

_PLAIN = (1, 2)
"""Reader and writer versions of Delta's protocol, in the tables that Tideline creates."""


def partitions_of_plain(table: DeltaTable) -> tuple[str, ...] | None:
    """The partition columns of a table to which files can be added as they are.

    None if the table has columns, features or constraints that it did not have when Tideline
    created it: Delta's own writer has to handle them (Delta protocol, "Writer Version
    Requirements").
    """
    protocol = table.protocol()
    versions = (protocol.min_reader_version, protocol.min_writer_version)
    if versions != _PLAIN or table.schema() != table_schema():
        return None
    return tuple(table.metadata().partition_columns)


@dataclass(frozen=True, slots=True)
class _Written:
    """One data file, its partition values, and the statistics in its footer."""

    file: FileInfo
    partition: Mapping[str, str]
    statistics: Mapping[str, Any]

    @property
    def action(self) -> AddAction:
        modified = self.file.mtime or datetime.now(UTC)
        return AddAction(
            self.file.path,
            self.file.size,
            self.partition,
            int(modified.timestamp() * 1000),
            True,
            json.dumps(self.statistics),
        )

    def bounds(self, name: str) -> tuple[int, int]:
        """Smallest and largest value of a coordinate, both inclusive."""
        if name in self.partition:
            return int(self.partition[name]), int(self.partition[name])
        return self.statistics["minValues"][name], self.statistics["maxValues"][name]


def commit_data_files(table: DeltaTable, job: SparkJob, options: Mapping[str, str]) -> None:
    """Commit an attempt's data files as the version right after the given one.

    Args:
        table: A version without rows at the planned coordinates.
        job: The job that wrote the files.
        options: delta-rs options of the object store.

    Raises:
        VerificationFailed: A file holds rows that are not planned.
        CommitFailedError: Another program has committed that version.
        DeltaError: The commit was refused.
        OSError: The store cannot be reached.
    """
    store = PyFileSystem(DeltaStorageHandler.from_table(table._table, dict(options)))
    folder = FileSelector(
        landing_folder(job.plan_id, job.token), recursive=True, allow_not_found=True
    )
    files = sorted(store.get_file_info(folder), key=lambda f: f.path)
    read = [_read(store, file) for file in files if file.base_name.endswith(".parquet")]
    written = [data_file for data_file in read if data_file.statistics["numRecords"]]
    for data_file in written:
        _refuse_unplanned(data_file, job)
    metadata = job.commit_metadata(
        rows=sum(data_file.statistics["numRecords"] for data_file in written),
        bytes=sum(data_file.file.size for data_file in written),
    )
    table.create_write_transaction(
        [data_file.action for data_file in written],
        "append",
        table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": metadata},
            app_transactions=[Transaction(job.app_id, job.token)],
            max_commit_retries=0,  # a retry would not check the rows of newer commits
        ),
    )


def _read(store: PyFileSystem, file: FileInfo) -> _Written:
    folders = (part.partition("=") for part in file.path.split("/")[:-1] if "=" in part)
    partition = {name: unquote(value) for name, _, value in folders}
    with store.open_input_file(file.path) as opened:
        footer = pq.ParquetFile(opened, pre_buffer=False).metadata
    return _Written(file, partition, _statistics(footer, partition))


def _refuse_unplanned(written: _Written, job: SparkJob) -> None:
    """Check the bounds of a file, as Delta's `replaceWhere` checks rows by its predicate."""
    low, high = written.bounds("partition")
    near = [r for r in job.ranges if low <= r.partition <= high]
    first, last = written.bounds("offset")
    numbers = {r.partition for r in near}
    if not {low, high} <= numbers or not (
        min(r.start_offset for r in near) <= first and last < max(r.end_offset for r in near)
    ):
        raise VerificationFailed(
            f"plan {job.plan_id}: data file {written.file.path} holds partitions {low} to {high},"
            f" offsets {first} to {last}, which are not all planned; nothing was committed",
            plan_id=job.plan_id,
        )


def _statistics(footer: pq.FileMetaData, partition: Mapping[str, str]) -> dict[str, Any]:
    """The statistics of a file in Delta's form; a column that a row group lacks is left out."""
    lows, highs, nulls = {}, {}, {}
    columns = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    for name in [n for n in COLUMNS if n not in partition][:STATISTICS_COLUMNS]:
        if name not in columns:  # an array: Delta has only null counts of its leaves
            continue
        groups = [
            footer.row_group(n).column(columns[name]).statistics
            for n in range(footer.num_row_groups)
        ]
        if not groups or any(g is None for g in groups):
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
