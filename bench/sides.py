"""Every way to bring the same records to the same place, warm and in one process.

A side is a function from a `Job` to nothing; who calls it takes the time. All read all partitions
of a topic from the start to its end, and all but `read_only` land every column raw in a new table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.real import InProcessSpark, World

from bench.python_peer import land_with_python
from bench.shapes import Shape
from tideline.core.plan import PlannedRange
from tideline.core.request import RunRequest
from tideline.ports import SparkJob
from tideline.spark.creation import ensure_table
from tideline.spark.sink import replace_ranges
from tideline.spark.source import READER_OPTIONS, read_ranges
from tideline.spark.transforms import to_table_rows
from tideline.steps.run_batch import run_batch
from tideline.wiring import open_run

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_AS_IT_COMES = {
    "spark.databricks.delta.snapshotPartitions": "50",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text",
}


@dataclass(frozen=True, slots=True)
class Job:
    """One landing.

    Args:
        world: Names on the broker, and a folder for stream files.
        spark: The warm session.
        shape: What to read.
        folder: Empty; for the table and all that belongs to it.
    """

    world: World
    spark: InProcessSpark
    shape: Shape
    folder: Path

    @property
    def table(self) -> str:
        """Where to land."""
        return str(self.folder / "table")


def tideline(job: Job) -> None:
    """A whole run: plan, detect, ingest, verify, advance."""
    stream = job.world.stream_of(job.shape.name, job.table)
    with open_run(stream, "one", RunRequest(), job.spark) as run:
        run_batch(run)


def available_now(job: Job) -> None:
    """Structured Streaming as it comes."""
    _available_now(job, {}, _AS_IT_COMES)


def available_now_tuned(job: Job) -> None:
    """The same with our reader's and our session's settings."""
    _available_now(job, READER_OPTIONS, {})


def _available_now(job: Job, options: dict[str, str], settings: dict[str, str]) -> None:
    session = job.spark.session.newSession() if settings else job.spark.session
    for name, value in settings.items():
        session.conf.set(name, value)
    stream = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", job.world.broker.bootstrap_servers)
        .options(**options)
        .option("subscribe", job.shape.name)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .select(*_COLUMNS)
    )
    query = (
        stream.writeStream.format("delta")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(job.folder / "checkpoint"))
        .start(job.table)
    )
    query.awaitTermination()


def read_only(job: Job) -> None:
    """Our reader, and nothing is written."""
    spark_job = _spark_job(job)
    rows = read_ranges(job.spark.session, spark_job)
    rows.write.format("noop").mode("overwrite").save()


def write_only(job: Job) -> None:
    """The same rows out of memory to a new table; call `cached` before, untimed."""
    job.spark.session.table(_cached_name(job.shape)).write.format("delta").save(job.table)


def cache(job: Job) -> None:
    """Hold the rows that `write_only` writes in memory, as columns."""
    spark_job = _spark_job(job)
    rows = read_ranges(job.spark.session, spark_job)
    rows = rows.transform(to_table_rows(spark_job.ranges, spark_job.plan_id))
    rows.createOrReplaceTempView(_cached_name(job.shape))
    job.spark.session.catalog.cacheTable(_cached_name(job.shape))
    rows.sparkSession.table(_cached_name(job.shape)).count()


def blind_append(job: Job) -> None:
    """Our rows, appended without a fence."""
    spark_job = _spark_job(job)
    ensure_table(job.spark.session, spark_job)
    rows = read_ranges(job.spark.session, spark_job)
    rows = rows.transform(to_table_rows(spark_job.ranges, spark_job.plan_id))
    rows.write.format("delta").mode("append").save(job.table)


def replace(job: Job) -> None:
    """Our rows, each in the place of what stood at its coordinates."""
    spark_job = _spark_job(job)
    ensure_table(job.spark.session, spark_job)
    rows = read_ranges(job.spark.session, spark_job)
    replace_ranges(rows.transform(to_table_rows(spark_job.ranges, spark_job.plan_id)), spark_job)


def python_peer(job: Job) -> None:
    """confluent-kafka, pyarrow and deltalake, tuned."""
    land_with_python(
        job.world.broker.bootstrap_servers, job.shape.name, job.shape.counts(), job.table
    )


SIDES: dict[str, Callable[[Job], None]] = {
    side.__name__: side
    for side in (
        tideline,
        available_now,
        available_now_tuned,
        read_only,
        write_only,
        blind_append,
        replace,
        python_peer,
    )
}


def _cached_name(shape: Shape) -> str:
    return f"cached_{shape.name.replace('-', '_')}"


def _spark_job(job: Job) -> SparkJob:
    ranges = tuple(
        PlannedRange(
            topic=job.shape.name,
            topic_id="0f8fad5b-d9cb-469f-a165-70867728950e",
            generation=0,
            partition=partition,
            start_offset=0,
            end_offset=count,
            leader_epoch=None,
            log_start_offset=0,
            high_watermark=count,
            last_stable_offset=count,
        )
        for partition, count in enumerate(job.shape.counts())
    )
    return SparkJob(
        stream="bench",
        ledger_id="bench",
        plan_id="bench",
        run_id=f"bench-{datetime.now(UTC):%H%M%S}",
        token=1,
        app_id="bench",
        table_uri=job.table,
        partition_by=("topic_id",),
        isolation_level="read_committed",
        ranges=ranges,
        kafka_options={"kafka.bootstrap.servers": job.world.broker.bootstrap_servers},
        result_path=str(job.folder / "result.json"),
    )
