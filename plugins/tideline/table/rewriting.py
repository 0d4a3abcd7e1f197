"""Write a data file again without the rows at some coordinates, a part of it at a time.

Files that others have compacted may hold a gigabyte. Everything happens on the calling thread
(`delta_io.parquet_files`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import NativeFile
from pyarrow.fs import PyFileSystem

from tideline.delta_io.parquet_files import plain_schema
from tideline.table.coordinates import by_identity
from tideline.table.file_statistics import Coordinates, DataFile
from tideline.table.schema import COLUMNS

_BATCH_BYTES = 32 * 1024 * 1024
_MOST_ROWS = 1024
"""Per batch that is read. A dictionary hides how large values are; these rows bound it."""
_GROUP_BYTES = 64 * 1024 * 1024
_READ_BYTES = 1024 * 1024
"""How much of a column is fetched at a time; without it, a column chunk is fetched as a whole."""


def rewrite(store: PyFileSystem, file: DataFile, wanted: Coordinates, folder: str) -> str:
    """Write the rows of a file that are not at the coordinates into a new file.

    Columns, also those that others have added, and the order of rows stay.

    Args:
        store: The table's.
        file: The file; stays as it is.
        wanted: Coordinates whose rows are left out.
        folder: Where to write, relative to the table; partition folders are repeated below it.

    Returns:
        The new file's path, relative to the table, not URL-encoded.

    Raises:
        OSError: A file cannot be read or written.
    """
    old = unquote(file.path)
    partition_folders = [part for part in old.split("/")[:-1] if "=" in part]
    path = "/".join([folder, *partition_folders, f"kept-{uuid.uuid4().hex}.parquet"])
    with store.open_input_file(old) as source:
        parquet = open_parquet(source)
        schema = _schema(parquet.schema_arrow)
        write_batches(store, path, schema, _kept(parquet, file, wanted, schema))
    return path


def open_parquet(source: NativeFile) -> pq.ParquetFile:
    """A Parquet file that is read a part at a time."""
    # Spark's default for times, INT96, would be read in nanoseconds, which end in 2262.
    return pq.ParquetFile(
        source, pre_buffer=False, buffer_size=_READ_BYTES, coerce_int96_timestamp_unit="us"
    )


def read_batches(parquet: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """All rows in their order, in batches that memory bears whatever the size of the values."""
    for number in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(number)
        each = max(1, group.total_byte_size // max(1, group.num_rows))
        rows = max(1, min(_MOST_ROWS, _BATCH_BYTES // each))
        yield from parquet.iter_batches(rows, row_groups=[number], use_threads=False)


def write_batches(
    store: PyFileSystem, path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> None:
    """Write one data file, in row groups of bounded size.

    Args:
        store: The table's.
        path: Relative to the table, not URL-encoded.
        schema: Of the batches.
        batches: The rows, in their order.

    Raises:
        OSError: A file cannot be read or written.
    """
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


def _kept(
    parquet: pq.ParquetFile, file: DataFile, wanted: Coordinates, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for batch in read_batches(parquet):
        data = pa.Table.from_batches([batch]).cast(schema)
        offsets = data.column("offset").to_numpy()
        leave = np.zeros(len(data), dtype=bool)
        for identity, mask in by_identity(data, file):
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
