"""The Spark session of an ingest: Delta, UTC, and the settings that measurements ask for."""

from __future__ import annotations

import os
from typing import Any, cast

from pyspark.sql import SparkSession

DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What Delta tables take; loading it costs seconds, and plain data files do without."""

APPLICATION = {
    "spark.ui.enabled": "false",
    # Noting where in Python each column was made takes milliseconds for each.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A run's consumers serve its own tasks only; what they hold is megabytes for each partition.
    "spark.kafka.consumer.cache.timeout": "10s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "5s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "10s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
}
"""Settled when Spark starts: a Spark Connect server has to be started with them."""

SESSION = {
    "spark.sql.session.timeZone": "UTC",
    # Without kafka in this list the batch reader takes the V2 path: no detour through Row.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    "spark.sql.parquet.compression.codec": "zstd",
    # The default, INT96, carries no statistics, and costs a dictionary of its own.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.shuffle.partitions": "2",
    # Nothing big is shuffled; planning Delta's look-ups by stages costs a sixth of a small run.
    "spark.sql.adaptive.enabled": "false",
    # Otherwise all rows are sorted by the partition columns, of which a task has one or few values.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
}
"""Each session's own, on a shared server too."""


def build_session(name: str, *, delta: bool = True) -> SparkSession:
    """The session of this application, with Tideline's settings.

    With `SPARK_REMOTE` in the environment it is one of a Spark Connect server.

    Args:
        name: The application's.
        delta: Whether it writes to Delta tables itself.
    """
    if "SPARK_REMOTE" in os.environ:
        return _remote_session()
    builder = SparkSession.builder.appName(name)
    for key, value in {**APPLICATION, **SESSION, **(DELTA if delta else {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _remote_session() -> SparkSession:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    spark = SparkSession.builder.getOrCreate()
    # By default it tries for ten minutes, also where a server does not speak TLS.
    client = cast(Any, spark).client
    client.set_retry_policies([DefaultPolicy(max_retries=8, max_backoff=10_000)])
    for key, value in SESSION.items():
        spark.conf.set(key, value)
    return spark
