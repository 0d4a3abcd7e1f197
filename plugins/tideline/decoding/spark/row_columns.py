"""Raw rows in, by planned coordinates; typed rows and quarantined rows out, by their columns.

Rows at the coordinates and no others are taken, whether these are one range or thousands.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tideline.decoding.spark.envelope_rows import typed_value
from tideline.model.decoding import DecodePlan
from tideline.model.spark_job import DecodeJob
from tideline.spark.coordinates import Transform, within
from tideline.spark.stored_rows import read_data_files
from tideline.table.schema import COLUMNS, delta_fields, own_columns, typed_columns


def read_raw_rows(spark: SparkSession, job: DecodeJob) -> DataFrame:
    """The raw rows at the plan's coordinates, in the raw table's columns.

    Args:
        spark: The job's session.
        job: With at least one raw file.
    """
    columns = StructType.fromJson({"type": "struct", "fields": [*delta_fields(COLUMNS)]})
    rows = read_data_files(spark, job.raw_uri, job.raw_files, columns)
    return rows.transform(within(job.plan.ranges))


_COORDINATES = ("topic_id", "generation", "topic", "partition", "offset", "timestamp")
PLAN = "decode_plan_id"


def for_typed(plan: DecodePlan) -> Transform:
    """The raw columns that typed rows are made of."""
    wanted = {"value", "headers", *(part.part for part in plan.parts)}
    return lambda rows: rows.select(*_COORDINATES, *sorted(wanted))


def typed_fields(plan: DecodePlan) -> list[Column]:
    """The typed table's columns but for the plan's id: the value's fields, then the key's."""
    own = [F.col(name) for name in own_columns(plan) if name != PLAN]
    parts = sorted(plan.parts, key=lambda p: p.part != "value")
    return [*own, *(typed_value(p, c).alias(c.name) for p in parts for c in p.reader.in_table)]


def typed_type(plan: DecodePlan) -> StructType:
    """The typed table's columns as a type, but for the plan's id."""
    fields = [field for field in typed_columns(plan) if field["name"] != PLAN]
    found: StructType = StructType.fromJson({"type": "struct", "fields": fields})
    return found


def typed(plan: DecodePlan) -> Transform:
    """The typed table's columns."""
    columns = [*typed_fields(plan), F.lit(plan.plan_id).alias(PLAN)]
    return lambda rows: rows.select(*columns)


def quarantine_columns(plan: DecodePlan) -> Transform:
    """The quarantine's columns: the record as it was landed, and what is wrong with it."""
    judged = ("part", "schema_id", "error_class", "error")
    plan_id = F.lit(plan.plan_id).alias(PLAN)

    def transform(rows: DataFrame) -> DataFrame:
        return rows.select(*_COORDINATES, "key", "value", "headers", *judged, plan_id)

    return transform
