"""Rows at planned coordinates and no others, whether these are one range or thousands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tideline.model.coverage import add_coverage, by_identity
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity
from tideline.spark.transforms import Transform

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
