"""The Spark session of a job: UTC, settings that benchmarks have shown to help, its progress."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, cast

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tideline.errors import ServiceAway, SparkRefused
from tideline.launch.java import class_of_ours
from tideline.launch.programs import CONNECTION, TOKEN

APPLICATION = {
    "spark.ui.enabled": "false",
    # Recording the Python line of each column takes milliseconds per column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Consumers serve the tasks of one run only, and each holds megabytes per partition.
    "spark.kafka.consumer.cache.timeout": "10s",
    "spark.kafka.consumer.cache.evictorThreadRunInterval": "5s",
    "spark.kafka.consumer.fetchedData.cache.timeout": "10s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "5s",
    # S3A then looks for no older file and no folder before it writes: the names are new each time.
    "spark.hadoop.fs.s3a.performance.flags": "create,mkdir",
}
"""Fixed when Spark starts. A Spark Connect server has to be started with them."""

COMMIT_PROTOCOL = class_of_ours("ManifestCommitProtocol")
"""Ours, in a jar that is among those of every Spark of ours (`tideline.launch.java`)."""

DECODERS = "tideline_decoders"
"""The catalog of our functions, in the same jar."""

REDACTED = r'"kafka\.(?:sasl|ssl)\.[^"]*"\s+value: "(?:[^"\\]|\\.)*+"'
"""A regular expression of Java's. A Spark Connect server keeps each statement as a text, for its
pages and its event logs: options of the Kafka source are in it, as Protobuf prints a map."""

PINNED = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.caseSensitive": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # A file that is damaged or gone fails the job: its rows are not left out.
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
}
"""Spark's own defaults of today, on which stored values, texts, hashes and names depend: whatever a
cluster's spark-defaults or a server says."""

SESSION = {
    "spark.sql.redaction.string.regex": REDACTED,
    "spark.sql.sources.commitProtocolClass": COMMIT_PROTOCOL,
    f"spark.sql.catalog.{DECODERS}": class_of_ours("Decoders"),
    "spark.sql.session.timeZone": "UTC",
    **PINNED,
    # Sources in this list use the V1 path. Without kafka in it, Kafka's batch reader uses V2, which
    # does not convert each record to a Row.
    "spark.sql.sources.useV1SourceList": "avro,csv,json,orc,parquet,text",
    "spark.sql.parquet.compression.codec": "zstd",
    # The default, INT96, has no statistics, and needs a dictionary of its own.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # Nothing is shuffled, so there is nothing to adapt; but coordinates, to compare two tables.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    # Without it, all rows are sorted by the partition columns; a task has few values of them.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
}
"""Set per session, on a shared Spark Connect server too; and anew for each job of a session."""

_STOPPED = "Cannot call methods on a stopped SparkContext"
"""All that is said where a standalone cluster's master takes no application of this driver."""

_COMPILED = {
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}
"""Spark's defaults; set as well, since a session may serve one job after the other."""
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_FEW = 20_000
"""Offsets. With fewer, Spark takes longer to compile a plan into Java than to interpret it."""
_EVERY_SECONDS = 0.5


def build_session(name: str | None, settings: Mapping[str, str] = SESSION) -> SparkSession:
    """The session of this application, with Tideline's settings.

    If `SPARK_REMOTE` is in the environment, it is a session of that Spark Connect server.

    Args:
        name: Name of the application; None if spark-submit has named it.
        settings: Of the session, where it is not a server's.

    Raises:
        SparkRefused: The Spark Connect server refuses the token.
        ServiceAway: The cluster's master takes no application.
    """
    if "SPARK_REMOTE" in os.environ:
        return _remote_session()
    builder = SparkSession.builder
    if name is not None:
        builder = builder.appName(name)
    for key, value in {**APPLICATION, **settings}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        if _STOPPED not in str(error):
            raise
        raise ServiceAway(
            "Spark's master takes no application: it does not answer under its address, or"
            " spark.authenticate.secret in spark-defaults.conf is not the cluster's; the log of"
            " Spark's driver says which"
        ) from error


def _remote_session() -> SparkSession:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    try:
        spark = SparkSession.builder.getOrCreate()
        # By default the client tries for ten minutes, even if the server does not speak TLS.
        client = cast(Any, spark).client
        client.set_retry_policies([DefaultPolicy(max_retries=8, max_backoff=10_000)])
        settle(spark)
    except Exception as error:
        if "UNAUTHENTICATED" not in str(error):
            raise
        connection = os.environ.get(CONNECTION) or "spark.connection"
        raise SparkRefused(
            f"connection {connection}: the Spark Connect server refuses the token; the connection's"
            f" password has to be what the server was started with in {TOKEN}",
            connection=connection,
            cause="authentication",
        ) from None
    return spark


def settle(spark: SparkSession) -> None:
    """Give a session Tideline's settings: another job, or its owner, may have set others."""
    for key, value in SESSION.items():
        spark.conf.set(key, value)


def compile_plans(spark: SparkSession, *, for_offsets: int) -> None:
    """Have Spark compile the plan of a job into Java, or interpret it where the job is small."""
    for key, value in (_INTERPRETED if for_offsets < _FEW else _COMPILED).items():
        spark.conf.set(key, value)


def report(
    context: SparkContext, group: str, send: Callable[[bytes], None], ended: threading.Event
) -> None:
    """Send a line twice a second until the job has ended; it never fails a job.

    Args:
        group: The job group of all that the job runs.
        send: Takes a line: `progress` and JSON with `tasks`, `of_tasks` and `records`, or `{}`.
    """
    with suppress(OSError):  # the client is gone: others notice that
        while not ended.wait(_EVERY_SECONDS):
            found: dict[str, int] = {}
            with suppress(Exception):  # Spark has not noted a stage yet, or its JVM is gone
                found = progress_of(context, group)
            send(b"progress " + json.dumps(found).encode() + b"\n")


def progress_of(context: SparkContext, group: str) -> dict[str, int]:
    """Tasks and records of the group's newest job; empty before there is one.

    Records are those that ended tasks have read, and what running ones have told so far: an
    executor tells it every ten seconds.
    """
    jobs = context.statusTracker().getJobIdsForGroup(group)
    job = context.statusTracker().getJobInfo(max(jobs)) if jobs else None
    if job is None:
        return {}
    store = context._jsc.sc().statusStore()
    stages = [store.lastStageAttempt(stage) for stage in job.stageIds]
    return {
        "tasks": sum(stage.numCompleteTasks() for stage in stages),
        "of_tasks": sum(stage.numTasks() for stage in stages),
        "records": sum(stage.inputRecords() for stage in stages),
    }
