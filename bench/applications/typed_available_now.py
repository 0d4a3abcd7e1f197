"""Structured Streaming with `Trigger.AvailableNow` from a topic into a raw and a typed Delta table.

Usage, by spark-submit: typed_available_now.py BOOTSTRAP_SERVERS TOPIC FOLDER FORMAT SCHEMA

FORMAT is avro or json. SCHEMA is the Avro schema's text, or the columns of the JSON as Spark writes
them. It has no quarantine, no plan and no proof: records that cannot be decoded end the query.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
_COORDINATES = ("topic", "partition", "offset", "timestamp")


def land_and_decode_available(
    session: SparkSession, servers: str, topic: str, folder: Path, record: Column
) -> None:
    """Land every record of a topic in `FOLDER/raw`, and its fields in `FOLDER/typed`.

    Each batch is held while both tables are written, as Spark's guide to `foreachBatch` does it.
    Each write carries the batch's number: a batch that comes again is not written twice.

    Args:
        session: With Delta.
        servers: Of the broker.
        topic: Read from its start to its present end.
        folder: For tables and checkpoint.
        record: The decoded value: a struct.
    """

    def write(batch: DataFrame, number: int) -> None:
        batch.persist()
        typed = batch.select(*_COORDINATES, record.alias("record"))
        tables = {"raw": batch, "typed": typed.select(*_COORDINATES, "record.*")}
        for name, rows in tables.items():
            rows.write.format("delta").mode("append").option("txnAppId", name).option(
                "txnVersion", number
            ).save(str(folder / name))
        batch.unpersist()

    stream = (
        session.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
        .select(*_COLUMNS)
    )
    query = (
        stream.writeStream.foreachBatch(write)
        .trigger(availableNow=True)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    query.awaitTermination()


def decoded(record_format: str, schema: str) -> Column:
    """The value behind the five bytes of Confluent's framing, as a struct.

    Args:
        record_format: `avro` or `json`.
        schema: As on the command line.
    """
    from pyspark.sql import functions as F
    from pyspark.sql.avro.functions import from_avro

    payload = F.expr("substring(value, 6)")
    if record_format == "avro":
        return from_avro(payload, schema)
    return F.from_json(payload.cast("string"), schema, {"mode": "FAILFAST"})


if __name__ == "__main__":
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    land_and_decode_available(
        spark, sys.argv[1], sys.argv[2], Path(sys.argv[3]), decoded(sys.argv[4], sys.argv[5])
    )
