"""From delta-rs and Python lists to Arrow, and from Arrow's times to integers, without pandas.

pyarrow converts all of them as well, but asks first whether it was given something of pandas, or
has to give it: where that is installed, and Airflow brings it, each process would load it, for half
a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from arro3.core import Array, DataType, Schema, Table


def from_delta(exported: object) -> pa.Table:
    """A table of delta-rs.

    Args:
        exported: Anything that streams through Arrow's C interface.
    """
    return pa.RecordBatchReader.from_stream(exported).read_all()


def from_columns(columns: Mapping[str, Sequence[Any]], schema: pa.Schema) -> pa.Table:
    """Columns of equal length.

    Args:
        columns: Values by column; those of a timestamp in its own unit since 1970, as integers.
        schema: Names and types, in the order wanted.
    """
    arrays = []
    for field in schema:
        wanted = DataType.from_arrow(field.type)
        given = DataType.int64() if pa.types.is_timestamp(field.type) else wanted
        arrays.append(Array(columns[field.name], type=given).cast(wanted))
    return from_delta(Table.from_arrays(arrays, schema=Schema.from_arrow(schema)))


def microseconds(times: pa.ChunkedArray) -> list[int | None]:
    """Timestamps as integers, in microseconds since 1970."""
    if times.type.unit != "us":
        times = times.cast(pa.timestamp("us", times.type.tz))
    return [us for chunk in times.chunks for us in chunk.view(pa.int64()).to_pylist()]
