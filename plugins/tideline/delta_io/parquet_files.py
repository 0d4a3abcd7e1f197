"""Read and write Parquet files through a Delta table's store, on the calling thread.

Nothing here uses Arrow's own threads. delta-rs gives Arrow a Python file; an Arrow thread that
still reads from it when the interpreter ends aborts the process and changes its exit status.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from deltalake.fs._base_handler import BaseDeltaStorageHandler

_ROWS_PER_GROUP = 1000
_SMALL_BYTES = 256 * 1024


def read_parquet(
    table: DeltaTable,
    path: str,
    columns: Sequence[str],
    options: Mapping[str, str],
    *,
    holding: tuple[str, str] | None = None,
) -> pa.Table:
    """Some columns of one data file.

    Args:
        table: Says where the store is.
        path: As in the table's log: URL-encoded, relative to the table.
        columns: Names, in the wanted order.
        options: delta-rs options of the object store.
        holding: Column and value. Row groups whose statistics exclude the value are left out;
            the others are read as a whole.

    Raises:
        OSError: The file cannot be read.
    """
    with _store(table, options).open_input_file(unquote(path)) as file:
        # A small file is one request as a whole, and one for each column otherwise.
        source = pa.BufferReader(file.read()) if file.size() <= _SMALL_BYTES else file
        parquet = pq.ParquetFile(source, pre_buffer=False)
        groups = [n for n in range(parquet.num_row_groups) if _may_hold(parquet, n, holding)]
        rows = parquet.read_row_groups(groups, columns=list(columns), use_threads=False)
        plain = plain_schema(rows.schema)
        # `cast` imports Arrow's functions, which takes longer than reading a small file.
        return rows if plain.equals(rows.schema) else rows.cast(plain)


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


def read_bytes(table: DeltaTable, path: str, options: Mapping[str, str]) -> bytes:
    """A data file as it is, to tell a damaged one from a store that is away.

    Raises:
        OSError: The file cannot be read.
    """
    with _store(table, options).open_input_file(unquote(path)) as file:
        data: bytes = file.read()
    return data


def _may_hold(parquet: pq.ParquetFile, group: int, holding: tuple[str, str] | None) -> bool:
    if holding is None:
        return True
    name, value = holding
    column = parquet.schema_arrow.get_field_index(name)
    statistics = parquet.metadata.row_group(group).column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.min <= value <= statistics.max)


def write_parquet(table: DeltaTable, path: str, rows: pa.Table, options: Mapping[str, str]) -> int:
    """Write one data file, compressed with zstd.

    Args:
        table: Says where the store is.
        path: Relative to the table, not URL-encoded.
        rows: The rows.
        options: delta-rs options of the object store.

    Returns:
        The file's size in bytes.

    Raises:
        OSError: The file cannot be written.
    """
    with _store(table, options).open_output_stream(path) as file:
        pq.write_table(rows, file, compression="zstd", row_group_size=_ROWS_PER_GROUP)
        return int(file.tell())


def _store(table: DeltaTable, options: Mapping[str, str]) -> BaseDeltaStorageHandler:
    return DeltaStorageHandler.from_table(table._table, dict(options))
