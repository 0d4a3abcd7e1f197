"""Write plain data files, count their rows, and name them; the run commits them (R2)."""

from __future__ import annotations

from urllib.parse import unquote, urlparse

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from tideline.failpoints import reach
from tideline.launch.job import Output, SparkJob, SparkResult

_WRITER = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Each task moves its own files. Partial results do no harm: nothing reads this folder yet.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}


def write_files(rows: DataFrame, job: SparkJob) -> SparkResult:
    """Write the rows into the attempt's own folder.

    The rows are counted while they pass, so a file that is lost afterwards is missed.

    Returns:
        How many rows were written, and into which files.
    """
    counted = Observation("written")
    observed = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    files = write_rows(observed, Output(job.table_uri, job.folder, job.partition_by))
    return SparkResult(rows=int(counted.get["rows"]), files=files)


def write_rows(rows: DataFrame, output: Output) -> tuple[str, ...]:
    """Write rows into an attempt's folder of a table.

    Returns:
        The data files, relative to the table, not URL-encoded.
    """
    target = f"{output.uri.rstrip('/')}/{output.folder}"
    reach("spark:writing")
    rows.write.options(**_WRITER).partitionBy(*output.partition_by).parquet(target)
    files = _data_files(rows.sparkSession, target)
    reach("spark:written")
    return tuple(sorted(f"{output.folder}/{path}" for path in files))


def _data_files(spark: SparkSession, target: str) -> list[str]:
    """The data files below a folder, relative to it, not URL-encoded.

    Spark, too, takes nothing for data whose name begins with `_` or `.`.
    """
    reader = spark.read.schema("offset BIGINT").option("recursiveFileLookup", "true")
    try:
        addresses = reader.parquet(target).inputFiles()
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        return []  # no rows, so no folder
    folder = f"/{target.rpartition('/')[2]}/"
    return [unquote(urlparse(address).path).partition(folder)[2] for address in addresses]
