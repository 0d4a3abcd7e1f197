"""A topic of a secured broker, asked for by each client without the other."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from devstack.harness import StreamHarness
from tideline.documents import dump, load
from tideline.errors import ServiceAway, TidelineError
from tideline.kafka.kafka_cluster import KafkaCluster
from tideline.kafka.kafka_settings import KafkaSettings
from tideline.launch.job import SparkPort
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import SparkJob, SparkResult

RECORDS = 10
"""In the harness' topic `orders`."""
SERVED = "served"
HIDDEN = "refusal of the topic"
Said = tuple[str, str]
"""The answer in a word, `SERVED`, `HIDDEN` or the error's class, and what was said."""


def by_python(harness: StreamHarness, extra: dict[str, str]) -> Said:
    """kafka-python asks for the topic's offsets."""
    try:
        with KafkaCluster(KafkaSettings("k", extra)) as cluster:
            (topic,) = cluster.observe([harness.topic()], {}).topics
    except TidelineError as error:
        return type(error).__name__, str(error)
    if topic.refusal:
        return HIDDEN, topic.refusal
    (partition,) = topic.partitions
    return SERVED, f"high watermark {partition.high_watermark}"


def by_spark(harness: StreamHarness, spark: SparkPort, extra: dict[str, str], folder: Path) -> Said:
    """Spark reads the topic; the folder gets files of the job, and the rows."""
    where = CoordinateRange(harness.topic(), harness.topic_id(), 0, 0, 0, RECORDS)
    result_path, attempt = folder / "result.json", f"attempt-{len(list(folder.glob('attempt-*')))}"
    (folder / attempt).mkdir()
    job = SparkJob(
        stream="orders",
        run_id="run",
        plan_id="plan",
        table_uri=str(folder),
        folder=f"{attempt}/rows",
        partition_by=(),
        isolation_level="read_committed",
        ranges=(where,),
        kafka_options=KafkaSettings("k", extra).for_spark(),
        result_path=str(result_path),
    )
    (folder / "job.json").write_text(dump(job))
    result_path.unlink(missing_ok=True)
    with suppress(ServiceAway):  # the result says more
        spark.submit(str(folder / "job.json"))
    result = load(SparkResult, result_path.read_bytes(), "the result")
    return result.error or SERVED, result.message or f"{result.rows} rows"
