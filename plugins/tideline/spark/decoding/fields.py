"""Where a typed column's value is, in what the formats have decoded."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from tideline.model.typed_columns import TypedColumn
from tideline.spark.decoding.formats import FIELDS


def fields_of(part: str) -> str:
    """Name of the column with a part's fields."""
    return f"{part}_{FIELDS}"


def value_of(part: str, column: TypedColumn) -> Column:
    """The value of a typed column; null where a record on its way is null.

    Args:
        part: Key or value.
        column: One of the part's.
    """
    return reduce(lambda found, step: found.getField(step), column.steps, F.col(fields_of(part)))
