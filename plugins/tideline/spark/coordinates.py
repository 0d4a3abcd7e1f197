"""Rows at coordinates: few ranges are compared, and many are looked up in a small table.

A term for each range would be code for each of them: some thousand exhaust a driver's memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity
from tideline.model.places import Places

Transform = Callable[[DataFrame], DataFrame]

_FEW = 20
"""So many ranges are compared one after the other; more are looked up in a table."""
_STEPS = 20_000
"""About so many entries that table has, if the ranges are long."""

_LOG = "_tideline_log"
_KINDS = ("STRING", "INT", "INT", "BIGINT", "BIGINT", "BIGINT")
_Interval = tuple[PartitionIdentity, OffsetRange]


def within(ranges: Sequence[CoordinateRange]) -> Transform:
    """Keep the rows at coordinates.

    Args:
        ranges: Ends are exclusive; they may overlap.
    """
    intervals = _normalized(ranges)
    if not intervals:
        return lambda rows: rows.limit(0)
    if len(intervals) <= _FEW:
        return lambda rows: rows.filter(_compared(intervals))
    whole = OffsetRange(
        min(interval.start_offset for _, interval in intervals),
        max(interval.end_offset for _, interval in intervals),
    )

    def transform(rows: DataFrame) -> DataFrame:
        near = rows.filter(_between(F.col("offset"), whole))  # skips parts of files
        return near.join(*_looked_up(near, intervals), "left_semi")

    return transform


def marked(name: str, ranges: Sequence[CoordinateRange]) -> Transform:
    """Add a column that says whether a row is at coordinates.

    Args:
        ranges: As above.
    """
    intervals = _normalized(ranges)

    def transform(rows: DataFrame) -> DataFrame:
        if len(intervals) <= _FEW:
            return rows.withColumn(name, _compared(intervals) if intervals else F.lit(False))
        wanted, is_wanted = _looked_up(rows, intervals)
        found = rows.join(wanted, is_wanted, "left_outer")
        return found.select(*map(F.col, rows.columns), F.col(_LOG).isNotNull().alias(name))

    return transform


def _normalized(ranges: Sequence[CoordinateRange]) -> list[_Interval]:
    return list(Places.of(ranges).pieces)


def _compared(intervals: Sequence[_Interval]) -> Column:
    conditions = [
        (F.col("topic_id") == log.topic_id)
        & (F.col("generation") == log.generation)
        & (F.col("partition") == log.partition)
        & _between(F.col("offset"), interval)
        for log, interval in intervals
    ]
    return reduce(or_, conditions)


def _looked_up(rows: DataFrame, intervals: Sequence[_Interval]) -> tuple[DataFrame, Column]:
    """For a hash join: the steps that the ranges touch. A row meets the ranges of its step only.

    Ranges do not overlap, so a row meets one at most.
    """
    step = max(64, sum(len(interval) for _, interval in intervals) // _STEPS)
    names = (_LOG, *(f"_tideline_{n}" for n in ("generation", "partition", "step", "from", "to")))
    ddl = ", ".join(f"{n} {k}" for n, k in zip(names, _KINDS, strict=True))
    found = list(_steps(intervals, step))
    wanted = rows.sparkSession.createDataFrame(found, ddl, verifySchema=False)
    log, generation, partition, number, start, end = (wanted[n] for n in names)
    offset = rows["offset"]
    is_wanted = (
        (rows["topic_id"] == log)
        & (rows["generation"] == generation)
        & (rows["partition"] == partition)
        & (F.floor(offset / F.lit(step)) == number)
        & (offset >= start)
        & (offset < end)
    )
    return F.broadcast(wanted), is_wanted


def _steps(
    intervals: Sequence[_Interval], step: int
) -> Iterator[tuple[str, int, int, int, int, int]]:
    for log, interval in intervals:
        start, end = interval.start_offset, interval.end_offset
        for n in range(start // step, (end - 1) // step + 1):
            yield log.topic_id, log.generation, log.partition, n, start, end


def _between(offset: Column, interval: OffsetRange) -> Column:
    return (offset >= interval.start_offset) & (offset < interval.end_offset)
