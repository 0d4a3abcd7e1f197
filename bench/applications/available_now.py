"""Structured Streaming with `Trigger.AvailableNow` from a topic into a Delta table.

Usage, by spark-submit: available_now.py BOOTSTRAP_SERVERS TOPIC FOLDER
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")


def land_available(
    session: SparkSession, servers: str, topic: str, folder: Path, options: Mapping[str, str]
) -> None:
    """Land every record of a topic, raw, in `FOLDER/table`.

    Args:
        session: With Delta.
        servers: Of the broker.
        topic: Read from its start to its present end.
        folder: For table and checkpoint.
        options: More options of Spark's Kafka source.
    """
    stream = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .options(**options)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .select(*_COLUMNS)
    )
    query = (
        stream.writeStream.format("delta")
        .trigger(availableNow=True)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "table"))
    )
    query.awaitTermination()


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    land_available(
        SparkSession.builder.getOrCreate(), sys.argv[1], sys.argv[2], Path(sys.argv[3]), {}
    )
