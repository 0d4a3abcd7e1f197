"""Convert delta-rs tables and Python lists to Arrow, and Arrow columns to Python, without pandas.

pyarrow's own conversions import pandas if it is installed, which takes half a second per process.
Airflow installs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from arro3.core import Array, DataType, Schema, Table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def from_delta(exported: object) -> pa.Table:
    """The rows of a delta-rs result as an Arrow table.

    Args:
        exported: Any object with Arrow's C stream interface.
    """
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


def integers(column: pa.ChunkedArray) -> np.ndarray:
    """A column of 64-bit integers; nulls and other types come as pyarrow converts them."""
    if column.type != pa.int64() or column.null_count:
        converted: np.ndarray = column.to_numpy()
        return converted
    parts = [
        np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), chunk.offset * 8)
        for chunk in column.chunks
        if len(chunk)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


def booleans(column: pa.ChunkedArray) -> np.ndarray:
    """A column of booleans without nulls, as a mask over the rows."""
    return integers(column.cast(pa.int64())).astype(bool)


def microseconds(times: pa.ChunkedArray) -> list[int | None]:
    """Timestamps as integers, in microseconds since 1970."""
    if times.type.unit != "us":
        times = times.cast(pa.timestamp("us", times.type.tz))
    return [us for chunk in times.chunks for us in chunk.view(pa.int64()).to_pylist()]


def instants(times: pa.ChunkedArray) -> list[datetime | None]:
    """Timestamps as UTC-aware datetimes.

    Raises:
        OverflowError: A time is after year 9999.
    """
    return [None if us is None else _EPOCH + us * _MICROSECOND for us in microseconds(times)]
