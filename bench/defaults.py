"""What a peer has whose user sets nothing."""

from __future__ import annotations

AS_IT_COMES = {
    "spark.databricks.delta.snapshotPartitions": "50",
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.maxConcurrentOutputFileWriters": "0",
    "spark.sql.parquet.compression.codec": "snappy",
    "spark.sql.parquet.outputTimestampType": "INT96",
    "spark.sql.redaction.string.regex": "(?!)",
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.sources.useV1SourceList": "avro,csv,json,kafka,orc,parquet,text",
}
"""Spark's and Delta's defaults of all that our session sets, but for our functions' catalog."""
