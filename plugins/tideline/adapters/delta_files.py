"""Parquet files of a Delta table, through the table's own store, on the calling thread.

Arrow would read ahead on threads of its own. Where the store is reached through Python (delta-rs
gives a Python file), such a thread that is still alive when the interpreter ends aborts the
process, and its exit status with it. So nothing here uses Arrow's threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.fs._base_handler import BaseDeltaStorageHandler


def read_parquet(
    table: DeltaTable, path: str, columns: Sequence[str], options: Mapping[str, str]
) -> pa.Table:
    """Some columns of one data file.

    Args:
        table: Says where the store is.
        path: As in the table's log, which writes paths URL-encoded.
        columns: Names, in the order wanted.
        options: delta-rs options of the object store.

    Raises:
        OSError: The file cannot be read.
    """
    with _store(table, options).open_input_file(unquote(path)) as file:
        parquet = pq.ParquetFile(file, pre_buffer=False)
        return parquet.read(columns=list(columns), use_threads=False)


def write_parquet(table: DeltaTable, path: str, rows: pa.Table, options: Mapping[str, str]) -> int:
    """Write one data file, zstd; its size in bytes.

    Raises:
        OSError: The file cannot be written.
    """
    with _store(table, options).open_output_stream(path) as file:
        pq.write_table(rows, file, compression="zstd")
    return int(_store(table, options).get_file_info([path])[0].size)


def _store(table: DeltaTable, options: Mapping[str, str]) -> BaseDeltaStorageHandler:
    return DeltaStorageHandler.from_table(table._table, dict(options))
