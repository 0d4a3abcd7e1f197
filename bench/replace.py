"""The write alone, over more and more partitions, each with bounds of its own in the predicate."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.sides import create_table, spark_job
from bench.tables import Table, milliseconds
from devstack.spark_apps import InProcessSpark
from tideline.spark.sink import replace_ranges
from tideline.spark.transforms import to_table_rows

_RECORDS = 1_000_000
_TIMES = 3


def replace(folder: Path) -> Table:
    """Write as many records from more and more partitions.

    Args:
        folder: Empty.
    """
    table = Table(
        "replaceWhere over many partitions",
        f"{_RECORDS:,} records of 100 B out of Spark itself into a new table; the predicate"
        f" holds each partition's bounds; medians of {_TIMES} after one that does not count.",
        ("partitions", "replaceWhere", "blind append", "append / replaceWhere"),
    )
    spark = InProcessSpark(is_small=False)
    try:
        for partitions in (1, 100, 1_000, 10_000):
            replacing, appending = [], []
            for number in range(_TIMES + 1):
                for seconds, write in ((replacing, True), (appending, False)):
                    target = folder / f"{partitions}-{number}-{write}"
                    seconds.append(_write(spark.session, target, partitions, replaces=write))
            ours, plain = median(replacing[1:]), median(appending[1:])
            shown = (milliseconds(ours), milliseconds(plain), f"{plain / ours:.2f}")
            table.add(f"{partitions:,}", *shown)
    finally:
        spark.stop()
    return table


def _write(spark: SparkSession, target: Path, partitions: int, *, replaces: bool) -> float:
    each = _RECORDS // partitions
    job = spark_job("many", [each] * partitions, target, {})
    create_table(job)
    rows = _records(spark, partitions, each).transform(to_table_rows(job.ranges, job.plan_id))
    began = time.perf_counter()
    if replaces:
        replace_ranges(rows, job)
    else:
        rows.write.format("delta").mode("append").save(job.table_uri)
    return time.perf_counter() - began


def _records(spark: SparkSession, partitions: int, each: int) -> DataFrame:
    """Records as Kafka's source has them."""
    number = F.col("id")
    return spark.range(0, partitions * each, 1, 4).select(
        F.lit(None).cast("binary").alias("key"),
        F.rpad(number.cast("string"), 100, "x").cast("binary").alias("value"),
        F.lit("many").alias("topic"),
        (number / each).cast("int").alias("partition"),
        (number % each).alias("offset"),
        F.timestamp_seconds(number).alias("timestamp"),
        F.lit(0).alias("timestampType"),
        F.lit(None).cast("array<struct<key: string, value: binary>>").alias("headers"),
    )
