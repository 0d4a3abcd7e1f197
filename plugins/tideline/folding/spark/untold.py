"""Deletes that may name another key than their row's, where the table's key has further columns.

A change event that deletes tells the record's key. Of other columns it has null, or a fixed value,
if the database did not tell the row of before; and the record without a value behind it has no
other column at all. Nobody can tell such a value from a real one. But if it was not told, the row
is there still: another key with the same record's key, whose last change before says nothing of an
end. Only then something is wrong.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tideline.folding.spark.changes import (
    DELETES,
    FOLLOWS,
    IS_TRUNCATE,
    ORDER,
    RECORD_KEY,
    UNTOLD,
    era_of,
    is_truncated,
    key_text,
)
from tideline.model.current import IS_DELETED, Barrier, FoldPlan
from tideline.model.places import Places

_ALONE, _AGAIN = "_tideline_alone", "_tideline_again"


def is_late(plan: FoldPlan) -> bool:
    """Whether changes are folded below others, among which may be a delete that means their row.

    By times, and by a declared order, any change may be: coordinates do not tell.
    """
    if plan.order != "offset":
        return True
    mine, known = Places.of(plan.ranges), Places.of(plan.covered)
    first: dict[int, tuple[int, int, int]] = {}
    for log, intervals in mine.items():
        at = (plan.incarnations.of(log) or 0, log.generation, intervals[0].start_offset)
        first[log.partition] = min(at, first.get(log.partition, at))
    return any(
        (plan.incarnations.of(log) or 0, log.generation, ranges[-1].end_offset)
        > first.get(log.partition, _NEVER)
        for log, ranges in (known - mine).items()
    )


_NEVER = (2**63, 0, 0)


def suspect_deletes(changed: DataFrame) -> DataFrame:
    """Deletes that lack a value, and records without one that follow no delete in hand.

    One that was sent twice follows the first one.
    """
    follows = F.col(DELETES) | F.col(FOLLOWS)
    before = F.lag(follows).over(Window.partitionBy(RECORD_KEY).orderBy(ORDER))
    alone = F.col(FOLLOWS) & ~F.coalesce(before, F.lit(False))
    known = changed.filter(~F.col(IS_TRUNCATE)).withColumn(_ALONE, alone)
    return known.filter(F.col(UNTOLD) | F.col(_ALONE))


def untold_deletes(plan: FoldPlan, history: DataFrame, barrier: Barrier | None) -> DataFrame:
    """The record's keys of which a delete left a row that it meant.

    Args:
        history: All changes of some record's keys that are decoded.
        barrier: The last change that said that all rows are gone: those before it stay nowhere.
    """
    there = history.filter(~is_truncated(plan, barrier, F.col(ORDER)))
    there = there.withColumn("key", F.coalesce(key_text(plan), F.lit("")))
    named = F.when(~F.col(_ALONE), F.col("key")).alias("named")
    place = F.struct(era_of(plan, F.col).alias("era"), "partition")
    there = there.withColumns({"place": place, _AGAIN: _is_again()})
    suspects = suspect_deletes(there).filter(~F.col(_AGAIN))
    suspects = suspects.select(
        RECORD_KEY, F.col(ORDER).alias("at"), named, F.col("place").alias("from")
    )
    rows = there.filter(~F.col(FOLLOWS) & ~F.col(IS_TRUNCATE)).select(
        RECORD_KEY, "key", ORDER, IS_DELETED, "place"
    )
    is_before = F.col(ORDER) < F.col("at")
    if plan.order == "offset":  # those of two partitions of one incarnation say no order
        is_same = F.col("place.era") == F.col("from.era")
        is_before |= is_same & (F.col("place.partition") != F.col("from.partition"))
    before = rows.join(suspects, RECORD_KEY).filter(is_before)
    last = before.groupBy(RECORD_KEY, "at", "named", "key").agg(
        F.max_by(~F.col(IS_DELETED), ORDER).alias("stays")
    )
    is_told = F.coalesce(F.col("key") == F.col("named"), F.lit(False)) & F.col("stays")
    found = last.groupBy(RECORD_KEY, "at").agg(
        F.max(is_told).alias("is_told"), F.max("stays").alias("stays")
    )
    return found.filter(F.col("stays") & ~F.col("is_told")).select(RECORD_KEY).distinct()


def _is_again() -> Column:
    """Whether a delete repeats the change before: producers send a record again."""
    before = (
        Window.partitionBy(RECORD_KEY).orderBy(ORDER).rowsBetween(Window.unboundedPreceding, -1)
    )
    said = F.when(~F.col(FOLLOWS), F.struct(F.col(DELETES).alias("deletes"), "key"))
    last = F.last(said, ignorenulls=True).over(before)
    is_again = F.col(DELETES) & last["deletes"] & (last["key"] == F.col("key"))
    return F.coalesce(is_again, F.lit(False))
