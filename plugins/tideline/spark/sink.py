"""Write plain data files, and count their rows; the run names and commits them (R2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from tideline.failpoints import reach
from tideline.launch.job import Output, SparkJob, SparkResult


def write_files(rows: DataFrame, job: SparkJob) -> SparkResult:
    """Write the rows into the attempt's own folder.

    The rows are counted while they pass, so a file that is lost afterwards is missed.

    Returns:
        How many rows were written.
    """
    seen, counts = Observation("written"), [F.count(F.lit(1)).alias("rows")]
    write_rows(rows.observe(seen, *counts), Output(job.table_uri, job.folder, job.partition_by))
    return SparkResult(rows=int(observed(seen, rows, counts)["rows"]))


def observed(seen: Observation, rows: DataFrame, metrics: Sequence[Column]) -> Mapping[str, Any]:
    """What was observed while rows were written; counted again if that got lost.

    Spark Connect's server does not wait for it: while it is slow, it may answer without.

    Args:
        seen: What was observed.
        rows: The rows without the observation, to be read again.
        metrics: What to count.
    """
    (counted,) = [seen.get] if seen.get else [r.asDict() for r in rows.agg(*metrics).collect()]
    return counted


def write_rows(rows: DataFrame, output: Output) -> None:
    """Write rows into an attempt's folder of a table; a manifest there names the files."""
    target = f"{output.uri.rstrip('/')}/{output.folder}"
    reach("spark:writing")
    rows.write.partitionBy(*output.partition_by).parquet(target)
    reach("spark:written")
