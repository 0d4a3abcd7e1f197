"""Data files that Spark has written beside a table, and the transaction that makes them its rows.

What a file holds is told by its footer: the statistics of a file that is added here are those that
Delta's own writer would have counted row by row. Spark's names and folders are kept.
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
"""Versions of Delta's protocol for readers and for writers, as our creation gives them."""


def partitions_of_plain(table: DeltaTable) -> tuple[str, ...] | None:
    """The partition columns of a table that takes files as they are.

    None for one with columns, features or constraints beside those of its creation: Delta's own
    writer knows what they ask for. Source: the Delta protocol, "Writer version requirements".
    """
    protocol = table.protocol()
    versions = (protocol.min_reader_version, protocol.min_writer_version)
    if versions != _PLAIN or table.schema() != table_schema():
        return None
    return tuple(table.metadata().partition_columns)


@dataclass(frozen=True, slots=True)
class _Written:
    """One file of Spark's: where it is, and what its footer says it holds."""

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


def commit_files(table: DeltaTable, job: SparkJob, options: Mapping[str, str]) -> None:
    """Add what an attempt has written, as the very next version of the table.

    Args:
        table: As it was when nothing stood at the coordinates.
        job: What Spark has done.
        options: delta-rs options of the object store.

    Raises:
        VerificationFailed: A file holds rows that are not planned.
        CommitFailedError: There is a newer version by now.
        DeltaError: The commit was refused.
        OSError: The store cannot be reached.
    """
    store = PyFileSystem(DeltaStorageHandler.from_table(table._table, dict(options)))
    folder = FileSelector(
        landing_folder(job.plan_id, job.token), recursive=True, allow_not_found=True
    )
    found = sorted(store.get_file_info(folder), key=lambda f: f.path)
    read = [_read(store, file) for file in found if file.base_name.endswith(".parquet")]
    written = [one for one in read if one.statistics["numRecords"]]
    for one in written:
        _refuse_unplanned(one, job)
    metadata = job.commit_metadata(
        rows=sum(one.statistics["numRecords"] for one in written),
        bytes=sum(one.file.size for one in written),
    )
    table.create_write_transaction(
        [one.action for one in written],
        "append",
        table.schema(),
        partition_by=table.metadata().partition_columns,
        commit_properties=CommitProperties(
            custom_metadata={"userMetadata": metadata},
            app_transactions=[Transaction(job.app_id, job.token)],
            max_commit_retries=0,  # tried again, it would pass over what others have committed
        ),
    )


def _read(store: PyFileSystem, file: FileInfo) -> _Written:
    folders = (part.partition("=") for part in file.path.split("/")[:-1] if "=" in part)
    partition = {name: unquote(value) for name, _, value in folders}
    with store.open_input_file(file.path) as opened:
        footer = pq.ParquetFile(opened, pre_buffer=False).metadata
    return _Written(file, partition, _statistics(footer, partition))


def _refuse_unplanned(one: _Written, job: SparkJob) -> None:
    """As a `replaceWhere` refuses a row outside of its predicate."""
    low, high = one.bounds("partition")
    near = [r for r in job.ranges if low <= r.partition <= high]
    first, last = one.bounds("offset")
    numbers = {r.partition for r in near}
    if not {low, high} <= numbers or not (
        min(r.start_offset for r in near) <= first and last < max(r.end_offset for r in near)
    ):
        raise VerificationFailed(
            f"plan {job.plan_id}: Spark's file {one.file.path} holds partitions {low} to {high},"
            f" offsets {first} to {last}, which are not all planned; nothing was added",
            plan_id=job.plan_id,
        )


def _statistics(footer: pq.FileMetaData, partition: Mapping[str, str]) -> dict[str, Any]:
    """What Delta keeps of a file; what a row group does not tell is left out."""
    lows, highs, nulls = {}, {}, {}
    columns = {footer.schema.column(n).path: n for n in range(footer.num_columns)}
    for name in [n for n in COLUMNS if n not in partition][:STATISTICS_COLUMNS]:
        if name not in columns:  # an array: Delta counts no more than its leaves' nulls
            continue
        found = [
            footer.row_group(n).column(columns[name]).statistics
            for n in range(footer.num_row_groups)
        ]
        groups = [g for g in found if g is not None]
        if not groups or len(groups) < len(found):
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
    """As Delta writes it; None beyond year 9999, where a producer counts in other units."""
    try:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    except OverflowError:
        return None
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")
