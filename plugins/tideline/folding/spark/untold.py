"""Deletes that may name another key than their row's, where the table's key has further columns.

A change event that deletes tells the record's key. Of other columns it has null, or a fixed value,
if the database did not tell the row of before; and the record without a value behind it has no
other column at all. Nobody can tell such a value from a real one. But if it was not told, the row
is there still: another key with the same record's key, whose last change before says nothing of an
end. Only then something is wrong.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from tideline.folding.spark.changes import (
    DELETES,
    FOLLOWS,
    IS_TRUNCATE,
    ORDER,
    RECORD_KEY,
    UNTOLD,
    is_truncated,
    key_text,
)
from tideline.model.current import IS_DELETED, Barrier, FoldPlan
from tideline.model.offsets import by_log

_ALONE = "_tideline_alone"


def is_late(plan: FoldPlan) -> bool:
    """Whether changes are folded below others, among which may be a delete that means their row."""
    ends = {i: intervals[-1].end_offset for i, intervals in by_log(plan.covered).items()}
    mine = {i: intervals[-1].end_offset for i, intervals in by_log(plan.ranges).items()}
    return any(end < ends.get(log, end) for log, end in mine.items())


def suspect_deletes(changed: DataFrame) -> DataFrame:
    """Deletes that lack a value, and records without one that follow no delete in hand."""
    before = F.lag(DELETES).over(Window.partitionBy(RECORD_KEY).orderBy(ORDER))
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
    suspects = suspect_deletes(there).select(RECORD_KEY, F.col(ORDER).alias("at"), named)
    rows = there.filter(~F.col(FOLLOWS) & ~F.col(IS_TRUNCATE)).select(
        RECORD_KEY, "key", ORDER, IS_DELETED
    )
    before = rows.join(suspects, RECORD_KEY).filter(F.col(ORDER) < F.col("at"))
    last = before.groupBy(RECORD_KEY, "at", "named", "key").agg(
        F.max_by(~F.col(IS_DELETED), ORDER).alias("stays")
    )
    is_told = F.coalesce(F.col("key") == F.col("named"), F.lit(False)) & F.col("stays")
    found = last.groupBy(RECORD_KEY, "at").agg(
        F.max(is_told).alias("is_told"), F.max("stays").alias("stays")
    )
    return found.filter(F.col("stays") & ~F.col("is_told")).select(RECORD_KEY).distinct()
