"""Create the table with Tideline's marks, also where an attempt to do so was cut off."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from tideline.core.table import COLUMNS, LEDGER_PROPERTY, STATISTICS_COLUMNS, STREAM_PROPERTY
from tideline.errors import BadInput
from tideline.failpoints import reach
from tideline.ports import SparkJob

_LOG, _STAGED_COMMITS = "_delta_log", "_staged_commits"


def ensure_table(spark: SparkSession, job: SparkJob) -> None:
    """Create the table if there is none.

    Spark takes a folder that is not empty for a table, and then its next write would create one
    without our marks. So what a creation that was cut off has left is removed first.

    Raises:
        BadInput: The folder holds something else.
    """
    reach("spark:started")
    if job.is_new_table:
        _clear_the_ground(spark, job.table_uri)
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


def _clear_the_ground(spark: SparkSession, uri: str) -> None:
    """Remove drafts of a first commit; no commit and no folder with anything in it is removed.

    An attempt that was stopped here and goes on after its successor has created the table finds
    that nothing of what it would remove is there any more.
    """
    jvm = spark._jvm
    assert jvm is not None
    table = jvm.org.apache.hadoop.fs.Path(uri)
    files = table.getFileSystem(spark._jsc.hadoopConfiguration())
    log = jvm.org.apache.hadoop.fs.Path(table, _LOG)
    entries = _entries(files, log)
    if any(not _is_draft(name) for name in entries):
        return  # it was created since
    for name in entries:
        _remove(files, jvm.org.apache.hadoop.fs.Path(log, name))
    _remove(files, log)
    others = sorted(_entries(files, table))
    if others and not _entries(files, log):
        raise BadInput(
            f"table.uri {uri}: the folder is not empty and holds no Delta table: {others[0]} is"
            " there; give the stream another folder, or empty this one if nobody needs it"
        )


def _is_draft(name: str) -> bool:
    return name == _STAGED_COMMITS or name.startswith(".")


def _entries(files: Any, folder: Any) -> list[str]:
    if not files.exists(folder):
        return []
    return [found.getPath().getName() for found in files.listStatus(folder)]


def _remove(files: Any, path: Any) -> None:
    """Remove a file or an empty folder; a folder that is not empty stays."""
    if files.exists(path) and not (files.isDirectory(path) and files.listStatus(path)):
        files.delete(path, False)
