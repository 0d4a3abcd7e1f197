"""How many rows are others than before, where records are decoded again."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.decoding.spark.row_columns import PLAN
from tideline.model.offsets import CoordinateRange
from tideline.spark.coordinates import within
from tideline.spark.stored_rows import EXACT_TIMES, read_data_files
from tideline.table.schema import TYPED_COORDINATES

_EXACT = {"ignoreNullFields": "false", **EXACT_TIMES}


def changed_rows(
    made: DataFrame, uri: str, files: Sequence[str], ranges: Sequence[CoordinateRange]
) -> int:
    """How many rows are new, gone, or have another value in any column but the plan's id.

    Args:
        made: The rows as they are made now, in the table's columns.
        uri: The table's address.
        files: Its data files that may hold rows at the coordinates, before anything is committed.
        ranges: The coordinates.
    """
    if not files:
        return made.count()
    stood = read_data_files(made.sparkSession, uri, files, made.schema).transform(within(ranges))
    before, after = (_by_coordinates(rows, name) for rows, name in ((stood, "b"), (made, "a")))
    both = before.join(after, list(TYPED_COORDINATES), "full_outer")
    return both.filter(~F.col("a").eqNullSafe(F.col("b"))).count()


def _by_coordinates(rows: DataFrame, name: str) -> DataFrame:
    """Coordinates, and SHA-256 of all that a row holds: of its text, since maps have no digest."""
    text = F.to_json(F.struct(*(n for n in rows.columns if n != PLAN)), _EXACT)
    return rows.select(*TYPED_COORDINATES, F.sha2(text, 256).alias(name))
