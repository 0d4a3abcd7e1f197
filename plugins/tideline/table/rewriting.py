"""The data files of an attempt by its manifest; and a file written again without some of its rows.

Spark's driver writes the manifest when all tasks are done, with the files of those attempts of
tasks that it counts (ADR 28). Other files may lie in the folder, of tasks that failed or were too
slow: they are no part of anything, and go with the next vacuum.

Files that others have compacted may hold a gigabyte: one is written again a part at a time, on the
calling thread (`delta_io`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import NativeFile
from pyarrow.fs import PyFileSystem

from tideline.delta_io import plain_schema
from tideline.documents import load
from tideline.errors import VerificationFailed
from tideline.model.spark_job import SparkResult
from tideline.model.wording import first_few
from tideline.table.rows import by_identity
from tideline.table.schema import COLUMNS, TableChange
from tideline.table.statistics import Coordinates, DataFile

_NAME = "_files.json"
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
        store: The table's.
        change: Says where the files lie.
        result: What Spark has reported; without rows, it may have written nothing.

    Raises:
        VerificationFailed: The manifest is missing, or names what is no data file of the attempt.
        UnreadableDocument: It is damaged, or a newer version of Tideline wrote it.
        OSError: The store cannot be reached.
    """
    path = f"{change.folder}/{_NAME}"
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
