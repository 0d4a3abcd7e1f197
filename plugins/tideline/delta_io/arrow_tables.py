"""From delta-rs and Python lists to Arrow, and from Arrow's times to integers, without pandas.

pyarrow converts all of them as well, but asks first whether it was given something of pandas, or
has to give it: where that is installed, and Airflow brings it, each process would load it, for half
a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from arro3.core import Array, DataType, Schema, Table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def from_delta(exported: object) -> pa.Table:
    """A table of delta-rs.

    Args:
        exported: Anything that streams through Arrow's C interface.
    """
    return pa.RecordBatchReader.from_stream(exported).read_all()


def from_columns(columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Columns of equal length.

    Args:
        columns: Values by column; those of a timestamp, which counts microseconds, UTC-aware.
        schema: Names and types, in the order wanted.
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
    """Timestamps that Python can hold, UTC-aware."""
    return [None if us is None else _EPOCH + us * _MICROSECOND for us in microseconds(times)]
