"""Every way to bring the same records to the same place, warm and in one process.

A side is a function of a `Job`; who calls it takes the time, unless it gives seconds itself. All
read all partitions of a topic from the start to its end; those that write land every column raw in
a new table.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.applications.available_now import land_available
from bench.defaults import AS_IT_COMES
from bench.python_peer import land_in_own_process
from bench.shapes import LARGE, Shape
from devstack.harness import StreamHarness
from devstack.spark_apps import InProcessSpark
from tideline.launch.jars import broker_jars, fetch
from tideline.launch.java import find_java
from tideline.launch.local_driver import LocalDriver
from tideline.model.offsets import PlannedRange
from tideline.model.request import RunRequest
from tideline.model.spark_job import SparkJob
from tideline.pipeline.run_batch import run_batch
from tideline.spark.raw_rows import READER_OPTIONS, read_ranges, to_table_rows, write_files
from tideline.table.delta_table import TargetTable
from tideline.table.schema import TableChange
from tideline.wiring import open_run

_PERF_COLUMNS = 10
"""Start, end, MB, MB/s, records, records/s, ms of rebalancing, ms of fetching, MB/s, records/s."""


class BenchHarness(StreamHarness):
    """Stream files for topics that are there."""

    def stream_of(self, topic: str, table: str) -> object:
        """A stream that lands a topic in a table."""
        kafka = {"connection": self.connection, "topics": [topic]}
        limits = {"max_records_per_run": LARGE, "max_records_per_partition": LARGE}
        return self.stream(kafka=kafka, table={"uri": table}, limits=limits)


@dataclass(frozen=True, slots=True)
class Job:
    """One landing.

    Args:
        harness: Names on the broker, and a folder for stream files.
        spark: The warm session.
        shape: What to read.
        folder: Empty; for the table and all that belongs to it.
    """

    harness: BenchHarness
    spark: InProcessSpark
    shape: Shape
    folder: Path

    @property
    def table(self) -> str:
        """Where to land."""
        return str(self.folder / "table")


def tideline(job: Job) -> None:
    """A whole run: plan, detect, ingest, verify, advance; in the warm driver, as users have it."""
    stream = job.harness.stream_of(job.shape.name, job.table)
    with open_run(stream, "one", RunRequest(), LocalDriver("local[2]", 900)) as run:
        run_batch(run)


def available_now(job: Job) -> None:
    """Structured Streaming as it comes."""
    _available_now(job, {}, AS_IT_COMES)


def available_now_tuned(job: Job) -> None:
    """The same with our `kafka.*` settings."""
    _available_now(job, READER_OPTIONS, AS_IT_COMES)


def available_now_equal(job: Job) -> None:
    """The same with our session's settings as well."""
    _available_now(job, READER_OPTIONS, {})


def _available_now(job: Job, options: dict[str, str], settings: dict[str, str]) -> None:
    session = job.spark.session.newSession() if settings else job.spark.session
    for name, value in settings.items():
        session.conf.set(name, value)
    servers = job.harness.broker.bootstrap_servers
    land_available(session, servers, job.shape.name, job.folder, options)


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
    create_table(spark_job)
    rows = read_ranges(job.spark.session, spark_job)
    rows = rows.transform(to_table_rows(spark_job.ranges, spark_job.plan_id))
    rows.write.format("delta").mode("append").save(job.table)


def land(job: Job) -> None:
    """Our rows in data files, and the transaction that adds them; no other step of a run."""
    spark_job = _spark_job(job)
    create_table(spark_job)
    rows = read_ranges(job.spark.session, spark_job)
    result = write_files(
        rows.transform(to_table_rows(spark_job.ranges, spark_job.plan_id)), spark_job
    )
    table, change = TargetTable(job.table), _change(spark_job)
    table.commit(change, table.written(change, result).files, based_on=0)


def python_peer(job: Job) -> float:
    """confluent-kafka, pyarrow and deltalake, tuned; its own seconds, its modules being loaded."""
    return land_in_own_process(
        job.harness.broker.bootstrap_servers, job.shape.name, job.shape.counts(), job.table
    )


def consumer_perf_test(job: Job) -> float:
    """Kafka's own performance tool reads the topic; its own seconds of fetching."""
    jars = [*fetch("bench"), *broker_jars()]
    command = [
        find_java().binary,
        *("-Xmx1g", "-cp", ":".join(map(str, jars)), "org.apache.kafka.tools.ConsumerPerformance"),
        *("--bootstrap-server", job.harness.broker.bootstrap_servers),
        *("--topic", job.shape.name, "--messages", str(job.shape.records)),
        *("--fetch-size", str(16 * 1024 * 1024), "--timeout", "60000", "--hide-header"),
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    line = next(line for line in said.splitlines() if line.count(",") == _PERF_COLUMNS - 1)
    cells = [cell.strip() for cell in line.split(",")]
    if float(cells[4]) < job.shape.records:
        raise RuntimeError(f"{job.shape.name}: {cells[4]} records were read")
    return float(cells[7]) / 1000


SIDES: dict[str, Callable[[Job], float | None]] = {
    side.__name__: side
    for side in (
        tideline,
        available_now,
        available_now_tuned,
        available_now_equal,
        read_only,
        write_only,
        blind_append,
        land,
        python_peer,
        consumer_perf_test,
    )
}


def create_table(job: SparkJob) -> None:
    """An empty table for a job, as a run makes it."""
    TargetTable(job.table_uri).create(job.stream, "bench", ["topic_id"])


def _change(job: SparkJob) -> TableChange:
    return TableChange("bench", job.plan_id, job.run_id, 1, tuple(job.ranges))


def _cached_name(shape: Shape) -> str:
    return f"cached_{shape.name.replace('-', '_')}"


def _spark_job(job: Job) -> SparkJob:
    options = {"kafka.bootstrap.servers": job.harness.broker.bootstrap_servers}
    return spark_job(job.shape.name, job.shape.counts(), job.folder, options)


def spark_job(
    topic: str, counts: Sequence[int], folder: Path, kafka_options: Mapping[str, str]
) -> SparkJob:
    """What a run would give the application for whole partitions of one topic.

    Args:
        topic: Its name.
        counts: Records per partition, each from offset 0.
        folder: For the table.
        kafka_options: Options of Spark's Kafka source.
    """
    ranges = tuple(
        PlannedRange(
            topic=topic,
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
        for partition, count in enumerate(counts)
    )
    return SparkJob(
        stream="bench",
        plan_id="bench",
        run_id=f"bench-{datetime.now(UTC):%H%M%S}",
        table_uri=str(folder / "table"),
        folder="landed-bench-1",
        isolation_level="read_committed",
        ranges=ranges,
        kafka_options=kafka_options,
        result_path=str(folder / "result.json"),
        partition_by=("topic_id",),
    )
