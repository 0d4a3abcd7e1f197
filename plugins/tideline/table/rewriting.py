"""Data files written again: one without some of its rows, or several as one. Nothing is committed.

Files that others have compacted may hold a gigabyte: they are read and written a part at a time, on
the calling thread (`delta_io`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import NativeFile
from pyarrow.fs import PyFileSystem

from tideline.delta.delta_io import is_damaged, plain_schema, whole
from tideline.errors import VerificationFailed
from tideline.model.maintenance import FileMerge, TableFile
from tideline.table.arrays import by_identity
from tideline.table.opened import Opened
from tideline.table.schema import COLUMNS
from tideline.table.statistics import Coordinates, DataFile
from tideline.texts import one_line

_BATCH_BYTES = 32 * 1024 * 1024
_MOST_ROWS = 1024
"""Per batch that is read. A dictionary hides how large values are; these rows bound it."""
_GROUP_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1024 * 1024
"""How much of a column is fetched at a time; without it, a column chunk is fetched as a whole."""
_PARTS_OF_VARIANT = {pa.field(name, pa.binary(), nullable=False) for name in ("metadata", "value")}


def rewrite(store: PyFileSystem, file: DataFile, wanted: Coordinates, folder: str) -> str:
    """Write the rows of a file that are not at the coordinates into a new file.

    Columns, also those that others have added, and the order of rows stay.

    Args:
        file: It stays as it is.
        wanted: Coordinates whose rows are left out.
        folder: Where to write, relative to the table; partition folders are repeated below it.

    Returns:
        The new file's path, relative to the table, not URL-encoded.
    """
    path = _new_path(folder, file.path, "kept")
    with store.open_input_file(unquote(file.path)) as source:
        parquet = _opened(source)
        schema = _schema(parquet.schema_arrow)
        _write(store, path, schema, _kept(parquet, file, wanted, schema))
    return path


def _kept(
    parquet: pq.ParquetFile, file: DataFile, wanted: Coordinates, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in _batches(parquet):
        data = pa.Table.from_batches([batch]).cast(schema)
        offsets = data.column("offset").to_numpy()
        leave = np.zeros(len(data), dtype=bool)
        for identity, mask in by_identity(data, file.constants):
            at = wanted.mask(identity, offsets)
            leave |= at if mask is None else at & mask
        if not leave.all():
            kept = data.filter(pa.array(~leave)) if leave.any() else data
            yield from kept.to_batches()


def _schema(schema: pa.Schema) -> pa.Schema:
    """The file's in plain types, with times in UTC: INT96 does not say so."""
    schema = plain_schema(schema)
    for n, field in enumerate(schema):
        if COLUMNS.get(field.name) == "TIMESTAMP":
            schema = schema.set(n, field.with_type(pa.timestamp("us", "UTC")))
    return schema


def merge_files(
    store: PyFileSystem, table: Opened, files: Sequence[TableFile], folder: str
) -> FileMerge | None:
    """Write the rows of several files into a new one, in the order of the files and of their rows.

    Columns that only some of the files have are null in the others' rows. Columns that the table
    does not know stay, too.

    Args:
        table: Says which columns have which type.
        files: At least two, with the same partition values; they stay as they are.
        folder: Where to write, relative to the table; partition folders are repeated below it.

    Returns:
        What to commit; None where a column has types in these files that do not fit together.
    """
    declared = plain_schema(pa.schema(table.schema().to_arrow()))
    schema = _common_schema(declared, [_schema_of(store, table, f) for f in files])
    if schema is None:
        return None
    path = _new_path(folder, files[0].path, "merged")
    try:
        _write(store, path, schema, _rows(store, table, files, schema))
    except _Unlike:
        return None
    size = int(store.get_file_info(path).size)
    return FileMerge(tuple(f.path for f in files), path, size, files[0].partition)


class _Unlike(Exception):
    """A value that its column's type in the table cannot hold."""


def _rows(
    store: PyFileSystem, table: Opened, files: Iterable[TableFile], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for file in files:
        rows = 0
        try:
            with store.open_input_file(unquote(file.path)) as source:
                for batch in _batches(_opened(source)):
                    rows += len(batch)
                    yield _shaped(batch, schema)
        except pa.ArrowInvalid as error:
            raise _damaged(table, file, str(error)) from error
        except OSError as error:
            if is_damaged(store, unquote(file.path)):
                raise _damaged(table, file, str(error)) from error
            raise
        if file.rows is not None and rows != file.rows:
            raise _damaged(table, file, f"it holds {rows} rows, the log says {file.rows}")


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in the columns of a schema."""
    columns = []
    for field in schema:
        at = batch.schema.get_field_index(field.name)
        if at < 0:
            columns.append(pa.nulls(len(batch), field.type))
            continue
        column = batch.column(at)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise _Unlike from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _schema_of(store: PyFileSystem, table: Opened, file: TableFile) -> pa.Schema:
    try:
        with store.open_input_file(unquote(file.path)) as source:
            return plain_schema(_opened(source).schema_arrow)
    except FileNotFoundError as error:
        raise _damaged(table, file, "it is gone") from error
    except pa.ArrowInvalid as error:
        raise _damaged(table, file, str(error)) from error


def _common_schema(declared: pa.Schema, found: Iterable[pa.Schema]) -> pa.Schema | None:
    """Every column that one of the files has: the table's in its order and types, then others."""
    others: dict[str, pa.DataType] = {}
    present = set()
    for schema in found:
        for field in schema:
            present.add(field.name)
            if field.name in declared.names:
                continue
            if others.setdefault(field.name, field.type) != field.type:
                return None
    known = {f.name: f.type for f in declared if f.name in present}
    return pa.schema(pa.field(name, _nullable(kind)) for name, kind in {**known, **others}.items())


def _nullable(kind: pa.DataType) -> pa.DataType:
    """A type whose parts may all be null: writers differ in what they promise.

    But for a VARIANT, which Spark reads only where its two parts are never null.
    """
    if pa.types.is_struct(kind) and {*kind} != _PARTS_OF_VARIANT:
        return pa.struct([pa.field(f.name, _nullable(f.type)) for f in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    return kind


def _damaged(table: Opened, file: TableFile, why: str) -> VerificationFailed:
    why = one_line(why, 200)
    return VerificationFailed(
        f"table {table.table_uri}: data file {file.path} cannot be merged: {why}; nothing was"
        " committed. tideline audit FILE names every damaged file, the runbook says what to do",
        path=file.path,
        why=why,
    )


def _new_path(folder: str, old: str, what: str) -> str:
    """In the attempt's folder, below the partition's: Delta's readers take values from there."""
    partition_folders = [part for part in unquote(old).split("/")[:-1] if "=" in part]
    return "/".join([folder, *partition_folders, f"{what}-{uuid.uuid4().hex}.parquet"])


def _opened(source: NativeFile) -> pq.ParquetFile:
    """A Parquet file that is read a part at a time."""
    # Spark's default for times, INT96, would be read in nanoseconds, which end in 2262.
    return pq.ParquetFile(
        source, pre_buffer=False, buffer_size=_READ_BYTES, coerce_int96_timestamp_unit="us"
    )


def _batches(parquet: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """All rows in their order, in batches that memory bears whatever the size of the values."""
    for number in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(number)
        each = max(1, group.total_byte_size // max(1, group.num_rows))
        rows = max(1, min(_MOST_ROWS, _BATCH_BYTES // each))
        read = parquet.iter_batches(rows, row_groups=[number], use_threads=False)
        yield from whole(group, read)


def _write(
    store: PyFileSystem, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> None:
    """Write one data file, in row groups of bounded size; its path is not URL-encoded."""
    with (
        store.open_output_stream(path) as target,
        pq.ParquetWriter(target, schema, compression="zstd") as writer,
    ):
        gathered: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            gathered.append(batch)
            size += batch.nbytes
            if size >= _GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(gathered, schema))
                gathered, size = [], 0
        if gathered:
            writer.write_table(pa.Table.from_batches(gathered, schema))
