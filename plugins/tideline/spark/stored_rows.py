"""Rows of a table's plain data files, without a reader of Delta: by files, and by coordinates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from urllib.parse import unquote, urlparse

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tideline.model.offsets import (
    CoordinateRange,
    OffsetRange,
    PartitionIdentity,
    add_coverage,
    by_identity,
)
from tideline.spark.raw_rows import Transform
from tideline.table.schema import NO_VALUE

_FEW = 20
"""So many ranges are compared one after the other; more are looked up in a table."""
_STEPS = 20_000
"""About so many entries that table has, if the ranges are long."""

_Interval = tuple[PartitionIdentity, OffsetRange]


def within(ranges: Sequence[CoordinateRange]) -> Transform:
    """Keep the rows at coordinates.

    Args:
        ranges: Ends are exclusive; they may overlap.
    """
    intervals = _normalized(ranges)
    if not intervals:
        return lambda rows: rows.limit(0)
    few = len(intervals) <= _FEW
    return _compared(intervals) if few else _looked_up(intervals)


def _normalized(ranges: Sequence[CoordinateRange]) -> list[_Interval]:
    merged = by_identity(add_coverage((), ((r.identity, r.offsets) for r in ranges)))
    return [(log, interval) for log, intervals in merged.items() for interval in intervals]


def _compared(intervals: Sequence[_Interval]) -> Transform:
    conditions = [
        (F.col("topic_id") == log.topic_id)
        & (F.col("generation") == log.generation)
        & (F.col("partition") == log.partition)
        & _between(F.col("offset"), interval)
        for log, interval in intervals
    ]
    return lambda rows: rows.filter(reduce(or_, conditions))


def _looked_up(intervals: Sequence[_Interval]) -> Transform:
    """A hash join with the steps that the ranges touch; a row meets the ranges of its step only."""
    step = max(64, sum(len(interval) for _, interval in intervals) // _STEPS)
    whole = OffsetRange(
        min(interval.start_offset for _, interval in intervals),
        max(interval.end_offset for _, interval in intervals),
    )

    def transform(rows: DataFrame) -> DataFrame:
        ddl = "t STRING, g INT, p INT, n BIGINT, a BIGINT, z BIGINT"
        wanted = rows.sparkSession.createDataFrame(list(_steps(intervals, step)), ddl)
        offset = rows["offset"]
        is_wanted = (
            (rows["topic_id"] == wanted["t"])
            & (rows["generation"] == wanted["g"])
            & (rows["partition"] == wanted["p"])
            & (F.floor(offset / F.lit(step)) == wanted["n"])
            & (offset >= wanted["a"])
            & (offset < wanted["z"])
        )
        near = rows.filter(_between(offset, whole))  # skips parts of files
        return near.join(F.broadcast(wanted), is_wanted, "left_semi")

    return transform


def _steps(
    intervals: Sequence[_Interval], step: int
) -> Iterator[tuple[str, int, int, int, int, int]]:
    for log, interval in intervals:
        start, end = interval.start_offset, interval.end_offset
        for n in range(start // step, (end - 1) // step + 1):
            yield log.topic_id, log.generation, log.partition, n, start, end


def _between(offset: Column, interval: OffsetRange) -> Column:
    return (offset >= interval.start_offset) & (offset < interval.end_offset)


_ADDRESS = "_tideline_address"


def read_files(
    spark: SparkSession, uri: str, files: Sequence[str], columns: StructType
) -> DataFrame:
    """The rows of some data files of a table.

    The files lie in the folders of several attempts, which Spark's own discovery of partitions
    takes for several tables. So the folders' names are read here.

    Args:
        uri: The table's address.
        files: Paths relative to it, not URL-encoded; at least one.
        columns: What is read; a column that a file does not have is null there.
    """
    values = {path: _named(path, columns.names) for path in files}
    named = next(iter(values.values())).keys()
    root = uri.rstrip("/")
    # Only a lookup by path does not take the folders' names for columns.
    stored = StructType([field for field in columns.fields if field.name not in named])
    reader = spark.read.schema(stored).option("recursiveFileLookup", "true")
    rows = reader.parquet(*(_literal(f"{root}/{path}") for path in files))
    return _with_named(rows, root, values, columns).select(*columns.names)


def _with_named(
    rows: DataFrame, root: str, values: Mapping[str, Mapping[str, str | None]], columns: StructType
) -> DataFrame:
    """Add what the folders' names say."""
    first = next(iter(values.values()))
    if all(found == first for found in values.values()):
        made = {name: F.lit(value).cast(columns[name].dataType) for name, value in first.items()}
        return rows.withColumns(made) if made else rows  # Connect's client takes no empty ones
    path = urlparse(root).path
    places = []
    for address in rows.inputFiles():
        relative = unquote(urlparse(address).path)[len(path) :].lstrip("/")
        places.append((address, *values[relative].values()))
    ddl = ", ".join(f"{name} STRING" for name in (_ADDRESS, *first))
    named = rows.sparkSession.createDataFrame(places, ddl)
    typed = named.select(_ADDRESS, *(F.col(n).cast(columns[n].dataType).alias(n) for n in first))
    return rows.withColumn(_ADDRESS, F.input_file_name()).join(F.broadcast(typed), _ADDRESS)


def _named(path: str, columns: Sequence[str]) -> dict[str, str | None]:
    """The partition columns of a file, by the names of its folders."""
    folders = (part.partition("=") for part in path.split("/")[:-1] if "=" in part)
    found = ((name, value) for name, _, value in folders if name in columns)
    return {name: None if value == NO_VALUE else unquote(value) for name, value in found}


def _literal(path: str) -> str:
    """A path that Spark does not take for a pattern."""
    return re.sub(r"([\[\]{}*?\\])", r"\\\1", path)
