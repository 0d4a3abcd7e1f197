"""What ledger and table share on delta-rs: Arrow, Parquet files, folders, commits as they stand.

Two rules that every function here keeps:

- No pandas. pyarrow's own conversions import it if it is installed, as Airflow does; that takes
  half a second per process.
- None of Arrow's own threads. delta-rs gives Arrow a Python file; an Arrow thread that still reads
  from it when the interpreter ends aborts the process and changes its exit status.
"""

from __future__ import annotations

import io
import shutil
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq
from arro3.core import Array, DataType, Schema, Table
from deltalake import CommitProperties
from deltalake.fs import DeltaStorageHandler
from deltalake.fs._base_handler import BaseDeltaStorageHandler
from pyarrow.fs import FileInfo, FileSelector, FileSystem, PyFileSystem

from tideline.delta.delta_log import lines_of
from tideline.store.table_files import handler_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_OF_PYTHON = tuple(
    (at.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
    for at in (datetime.min + _DAY, datetime.max - _DAY)
)
_PART_ROWS, _PART_BYTES = 1024, 1024 * 1024
"""So much of a file is read at a time to find out whether it is whole."""
_AS_WRITTEN = {"compression": "zstd", "row_group_size": 1000}
SMALL_BYTES = 256 * 1024
"""A file of so many is read as a whole, by one request."""
CREATED_ONCE = CommitProperties(max_commit_retries=0)
"""For `DeltaTable.create`: after another writer has created the table, delta-rs would create it
again, as version 1 with another id, and that would replace the other one's."""


class Addressed(Protocol):
    """A table that somebody has opened."""

    @property
    def table_uri(self) -> str:
        """Its address."""


def from_delta(exported: object) -> pa.Table:
    """The rows of a delta-rs result, or of what else has Arrow's C stream interface."""
    return pa.RecordBatchReader.from_stream(exported).read_all()


def from_columns(columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """An Arrow table from Python lists.

    Args:
        columns: Values by column name, all of the same length; times are UTC-aware.
        schema: Names and types, in the wanted order; times in microseconds.
    """
    arrays = []
    for field in schema:
        values, wanted = columns[field.name], DataType.from_arrow(field.type)
        if pa.types.is_timestamp(field.type):
            since_1970 = [(at - _EPOCH) // _MICROSECOND for at in values]
            arrays.append(Array(since_1970, type=DataType.int64()).cast(wanted))
        else:
            arrays.append(Array(values, type=wanted))
    return from_delta(Table.from_arrays(arrays, schema=Schema.from_arrow(schema)))


def microseconds(times: pa.ChunkedArray) -> list[int | None]:
    """Timestamps as integers, in microseconds since 1970."""
    if times.type.unit != "us":
        times = times.cast(pa.timestamp("us", times.type.tz))
    return [us for chunk in times.chunks for us in chunk.view(pa.int64()).to_pylist()]


def instants(times: pa.ChunkedArray) -> list[datetime | None]:
    """Timestamps as UTC-aware datetimes."""
    return [None if us is None else _EPOCH + us * _MICROSECOND for us in microseconds(times)]


def for_python(rows: pa.Table) -> pa.Table:
    """Rows whose times Python can hold; a farther time becomes the nearest that leaves a day.

    A producer that does not send milliseconds writes records of the year 55,000.
    """
    for n, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type) and field.type.unit == "us":
            import pyarrow.compute as pc  # which takes longer than reading a small file

            since_1970 = rows.column(n).cast(pa.int64())
            since_1970 = pc.max_element_wise(since_1970, _OF_PYTHON[0], skip_nulls=False)
            since_1970 = pc.min_element_wise(since_1970, _OF_PYTHON[1], skip_nulls=False)
            times = since_1970.cast(field.type)
            rows = rows.set_column(n, field, times)
    return rows


def read_parquet(
    table: Addressed | str,
    path: str,
    columns: Sequence[str],
    options: Mapping[str, str],
    *,
    holding: Mapping[str, Sequence[Any]] | None = None,
    data: bytes | None = None,
) -> pa.Table:
    """Some columns of one data file.

    Args:
        table: Says where the store is; or the table's address.
        path: As in the table's log: URL-encoded, relative to the table.
        holding: Sorted values by column. Row groups whose statistics exclude all values of one are
            left out; the others are read as a whole.
        data: The file, where it was read already.
    """
    if data is not None:
        return _rows_of(pa.BufferReader(data), columns, holding)
    with _store(table, options).open_input_file(unquote(path)) as file:
        return _rows_of(whole_if_small(file), columns, holding)


def whole_if_small(file: pa.NativeFile) -> pa.NativeFile:
    """A small file is one request as a whole, and one for each column otherwise."""
    return pa.BufferReader(file.read()) if file.size() <= SMALL_BYTES else file


def _rows_of(
    source: pa.NativeFile, columns: Sequence[str], holding: Mapping[str, Sequence[Any]] | None
) -> pa.Table:
    parquet = pq.ParquetFile(source, pre_buffer=False)
    groups = [n for n in range(parquet.num_row_groups) if _may_hold(parquet, n, holding or {})]
    rows = parquet.read_row_groups(groups, columns=list(columns), use_threads=False)
    plain = plain_schema(rows.schema)
    # `cast` imports Arrow's functions, which takes longer than reading a small file.
    return rows if plain.equals(rows.schema) else rows.cast(plain)


def _may_hold(parquet: pq.ParquetFile, group: int, holding: Mapping[str, Sequence[Any]]) -> bool:
    if not holding:
        return True
    row_group = parquet.metadata.row_group(group)
    columns = {c.path_in_schema: c for c in map(row_group.column, range(row_group.num_columns))}
    for name, values in holding.items():
        statistics = columns[name].statistics if name in columns else None
        if statistics is None or not statistics.has_min_max:
            continue
        try:
            first = bisect_left(values, statistics.min)
            if first == len(values) or values[first] > statistics.max:
                return False
        except TypeError:  # the column has another type here
            continue
    return True


def is_damaged(store: FileSystem, path: str) -> bool:
    """Whether a data file's bytes come, and are none of Parquet's; else its store is away.

    Parquet's reader says of both that they are errors of a file (`OSError`).

    Args:
        path: Not URL-encoded.
    """
    try:
        with store.open_input_stream(path) as source:
            while source.read(_PART_BYTES):
                pass
    except OSError:
        return False
    try:
        with store.open_input_file(path) as source:
            parquet = pq.ParquetFile(source, pre_buffer=False, buffer_size=_PART_BYTES)
            rows = sum(map(len, parquet.iter_batches(_PART_ROWS, use_threads=False)))
    except (OSError, pa.ArrowInvalid):
        return True
    return bool(rows != parquet.metadata.num_rows)


def whole(
    group: pq.RowGroupMetaData, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """A row group that is read in parts, to its end.

    Arrow takes the end of what a store gives of a column for the column's own.

    Args:
        group: What the file's footer tells of it.
        batches: Its rows.

    Raises:
        OSError: They are others than the footer tells; all that have come were yielded.
    """
    rows = 0
    for batch in batches:
        rows += len(batch)
        yield batch
    if rows != group.num_rows:
        raise OSError(f"{rows} of {group.num_rows} rows have come: the store gave too few bytes")


def parquet_bytes(rows: pa.Table) -> bytes:
    """A data file, compressed with zstd."""
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, **_AS_WRITTEN)
    return buffer.getvalue()


def write_parquet(uri: str, path: str, rows: pa.Table, options: Mapping[str, str]) -> int:
    """Write one data file, compressed with zstd, through delta-rs.

    Args:
        uri: The table's address.
        path: Relative to the table, not URL-encoded.

    Returns:
        The file's size in bytes.
    """
    with _store(uri, options).open_output_stream(path) as file:
        pq.write_table(rows, file, **_AS_WRITTEN)
        return int(file.tell())


def _store(table: Addressed | str, options: Mapping[str, str]) -> BaseDeltaStorageHandler:
    uri = table if isinstance(table, str) else table.table_uri
    return handler_of(uri, options) or DeltaStorageHandler(uri, dict(options))


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """A schema with Arrow's plain types, for which Arrow's functions exist.

    Programs write their own choice of types into a file's metadata, and Arrow follows it: what
    delta-rs has updated is read as `string_view`, which can be neither compared nor filtered.
    """
    for n, field in enumerate(schema):
        schema = schema.set(n, field.with_type(_plain(field.type)))
    return schema


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_binary_view(kind) or pa.types.is_large_binary(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_plain(f.type)) for f in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(kind.value_field.with_type(_plain(kind.value_type)))
    return kind


def checkpoint_interval(uri: str) -> dict[str, str | None]:
    """The table property that says after how many commits Delta writes a checkpoint.

    delta-rs opens a table by reading each commit since the last one twice. In an object store each
    of these is a request, so checkpoints come sooner there.
    """
    return {"delta.checkpointInterval": "10" if _local_folder(uri) is None else "50"}


def read_commit(
    uri: str, version: int, options: Mapping[str, str]
) -> tuple[Mapping[str, Any], ...] | None:
    """The actions of a commit, in the log's order; None if log cleanup has removed its file.

    One that is not as any writer leaves it is a `DamagedLog`.
    """
    try:
        with _store(uri, options).open_input_file(f"_delta_log/{version:020d}.json") as file:
            body = file.read()
    except FileNotFoundError:
        return None
    return lines_of(version, body)


def discard_folder(uri: str, options: Mapping[str, str], folder: str) -> None:
    """Delete a folder inside a table's; one that is not there is no error.

    Through the table's store, so it works the same for every way of running Spark.
    """
    local = _local_folder(uri)
    if local is not None:
        shutil.rmtree(local / folder, ignore_errors=True)
    elif folder_entries(uri, options, folder):
        files_of(uri, options).delete_dir(folder)


def folder_entries(uri: str, options: Mapping[str, str], folder: str) -> list[FileInfo]:
    """What lies in a folder inside a table's; nothing if it is not there.

    Args:
        folder: Relative to the table's; empty for that itself.
    """
    local = _local_folder(uri)
    if local is not None and not (local / folder).is_dir():
        return []
    selector = FileSelector(folder, allow_not_found=True)
    return list(files_of(uri, options).get_file_info(selector))


def _local_folder(uri: str) -> Path | None:
    """The path of an address; None in an object store."""
    address = urlparse(uri)
    return Path(address.path) if address.scheme in ("", "file") else None


def files_of(table: Addressed | str, options: Mapping[str, str]) -> PyFileSystem:
    """A table's files, as Arrow reads and writes them; paths are relative to the table."""
    return PyFileSystem(_store(table, options))
