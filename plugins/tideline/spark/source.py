"""Read exactly the planned offsets, in batch."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from tideline.core.plan import PlannedRange
from tideline.ports import SparkJob

READER_OPTIONS = {
    # The executor's consumer looks both log ends up after every poll: fewer, larger polls.
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(16 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(64 * 1024 * 1024),
    "kafka.receive.buffer.bytes": str(1024 * 1024),
    "kafka.allow.auto.create.topics": "false",
    "kafkaConsumer.pollTimeoutMs": "60000",
}
"""Where a stream file says nothing else."""


def read_ranges(spark: SparkSession, job: SparkJob) -> DataFrame:
    """Records of the planned ranges and nothing else.

    `assign` names the non-empty partitions; `failOnDataLoss` stays on, although it is no
    guarantee (see the faults catalogue): rows are counted after the commit.
    """
    reader = spark.read.format("kafka").options(**READER_OPTIONS).options(**job.kafka_options)
    return (
        reader.option("assign", _by_topic(job.ranges, None))
        .option("startingOffsets", _by_topic(job.ranges, "start_offset"))
        .option("endingOffsets", _by_topic(job.ranges, "end_offset"))
        .option("failOnDataLoss", "true")
        .option("includeHeaders", "true")
        .option("kafka.isolation.level", job.isolation_level)
        .load()
        .select(
            "key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"
        )
    )


def _by_topic(ranges: Sequence[PlannedRange], bound: str | None) -> str:
    if bound is None:
        numbers = defaultdict(list)
        for planned in ranges:
            numbers[planned.topic].append(planned.partition)
        return json.dumps(numbers)
    offsets: dict[str, dict[str, int]] = defaultdict(dict)
    for planned in ranges:
        offsets[planned.topic][str(planned.partition)] = getattr(planned, bound)
    return json.dumps(offsets)
