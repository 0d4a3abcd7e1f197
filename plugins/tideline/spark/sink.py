"""Write plain data files, and count their rows; the run names and commits them (R2)."""

from __future__ import annotations

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from tideline.failpoints import reach
from tideline.launch.job import Output, SparkJob, SparkResult


def write_files(rows: DataFrame, job: SparkJob) -> SparkResult:
    """Write the rows into the attempt's own folder.

    The rows are counted while they pass, so a file that is lost afterwards is missed.

    Returns:
        How many rows were written.
    """
    counted = Observation("written")
    observed = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    write_rows(observed, Output(job.table_uri, job.folder, job.partition_by))
    return SparkResult(rows=int(counted.get["rows"]))


def write_rows(rows: DataFrame, output: Output) -> None:
    """Write rows into an attempt's folder of a table; a manifest there names the files."""
    target = f"{output.uri.rstrip('/')}/{output.folder}"
    reach("spark:writing")
    rows.write.partitionBy(*output.partition_by).parquet(target)
    reach("spark:written")
