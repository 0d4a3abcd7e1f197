"""The columns of the typed table and of the quarantine, from judged rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.model.decoding import DecodePlan
from tideline.spark.decoding.fields import value_of
from tideline.spark.transforms import Transform
from tideline.table.schema import own_columns

_COORDINATES = ("topic_id", "generation", "topic", "partition", "offset", "timestamp")
_PLAN = "decode_plan_id"


def for_typed(plan: DecodePlan) -> Transform:
    """The raw columns that typed rows are made of: Python workers get whatever is there."""
    wanted = {"value", *(part.part for part in plan.parts), *({"headers"} & {*own_columns(plan)})}
    return lambda rows: rows.select(*_COORDINATES, *sorted(wanted))


def typed(plan: DecodePlan) -> Transform:
    """The typed table's columns: the value's fields first, then the key's."""
    own = [name for name in own_columns(plan) if name != _PLAN]
    parts = sorted(plan.parts, key=lambda p: p.part != "value")
    fields = [value_of(p.part, c).alias(c.name) for p in parts for c in p.reader.in_table]
    plan_id = F.lit(plan.plan_id).alias(_PLAN)

    def transform(rows: DataFrame) -> DataFrame:
        return rows.select(*own, *fields, plan_id)

    return transform


def quarantined(plan: DecodePlan) -> Transform:
    """The quarantine's columns: the record as it was landed, and what is wrong with it."""
    told = ("part", "schema_id", "error_class", "error")
    plan_id = F.lit(plan.plan_id).alias(_PLAN)

    def transform(rows: DataFrame) -> DataFrame:
        return rows.select(*_COORDINATES, "key", "value", "headers", *told, plan_id)

    return transform
