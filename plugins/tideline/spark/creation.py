"""Create the table with Tideline's marks."""

from __future__ import annotations

from pyspark.sql import SparkSession

from tideline.core.table import COLUMNS, LEDGER_PROPERTY, STATISTICS_COLUMNS, STREAM_PROPERTY
from tideline.failpoints import reach
from tideline.ports import SparkJob


def ensure_table(spark: SparkSession, job: SparkJob) -> None:
    """Create the table if there is none; its folder has been cleared for it before."""
    reach("spark:started")
    columns = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    partitions = ", ".join(f"`{name}`" for name in job.partition_by)
    properties = {
        STREAM_PROPERTY: job.stream,
        LEDGER_PROPERTY: job.ledger_id,
        "delta.dataSkippingNumIndexedCols": str(STATISTICS_COLUMNS),
        "delta.enableDeletionVectors": "false",
        "delta.checkpointInterval": "50",
    }
    quoted = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    clause = f" PARTITIONED BY ({partitions})" if partitions else ""
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS delta.`{job.table_uri}` ({columns})"
        f" USING DELTA{clause} TBLPROPERTIES ({quoted})"
    )
