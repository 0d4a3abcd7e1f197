"""The column `event_date`: the day of a field, or of Kafka's time, inside a window of days."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType

from tideline.model.decoding import DecodePlan
from tideline.spark.decoding.fields import value_of
from tideline.spark.decoding.formats import ERROR, ERROR_CLASS
from tideline.spark.decoding.types import spark_type
from tideline.spark.transforms import Transform

EVENT_DATE = "event_date"
_FARTHEST_MS = 9_000_000_000_000_000
"""Milliseconds that still fit when they are counted in microseconds."""


def judge_event_date(plan: DecodePlan) -> Transform:
    """Add `event_date`; a good row outside of the window becomes bad, or gets none.

    A tombstone has no fields: it has the day of Kafka's time, or none, and is never bad for it.
    A field that is null, or no time, is outside of the window.
    """
    wanted = plan.event_date
    assert wanted is not None
    kafka_day = F.to_date(F.col("timestamp"))
    is_tombstone = F.col("is_tombstone")
    day = kafka_day
    if wanted.field is not None:
        day = F.when(is_tombstone, kafka_day).otherwise(_day_of(plan, wanted.field))
    inside = F.coalesce(F.col(EVENT_DATE).between(wanted.first, wanted.last), F.lit(False))
    is_late = F.col(ERROR_CLASS).isNull() & ~inside & ~is_tombstone
    if wanted.outside != "quarantine":
        is_late = F.lit(False)
    what = F.concat_ws(" ", F.lit("the event's day"), F.col(EVENT_DATE).cast("string"))
    text = F.concat(what, F.lit(f" is not within {wanted.first} to {wanted.last}"))
    part = "key" if [p.part for p in plan.parts] == ["key"] else "value"
    made = {
        EVENT_DATE: F.when(inside, F.col(EVENT_DATE)),
        "part": F.when(is_late, part).otherwise(F.col("part")),
        ERROR_CLASS: F.when(is_late, "event_time").otherwise(F.col(ERROR_CLASS)),
        ERROR: F.when(is_late, text).otherwise(F.col(ERROR)),
    }
    return lambda rows: rows.withColumn(EVENT_DATE, day).withColumns(made)


def _day_of(plan: DecodePlan, name: str) -> Column:
    """The day that a field of the typed table names; whole numbers are milliseconds since 1970."""
    part, source = next((p, c) for p in plan.parts for c in p.reader.in_table if c.name == name)
    column = value_of(part.part, source)
    kind = spark_type(source.type)
    if isinstance(kind, DateType):
        return column
    if isinstance(kind, LongType):
        return F.to_date(F.timestamp_millis(F.when(F.abs(column) < _FARTHEST_MS, column)))
    if isinstance(kind, StringType):
        return F.to_date(F.try_to_timestamp(column))
    return F.to_date(column)
