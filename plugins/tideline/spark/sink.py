"""Write rows at the planned coordinates, so that a re-run leaves one copy of each (R2, R4, R5)."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tideline.errors import AttemptFenced, ReplayUnavailable
from tideline.failpoints import reach
from tideline.launch.job import SparkJob, SparkResult, StagedRows
from tideline.model.offsets import PartitionIdentity
from tideline.table.predicate import coordinates_predicate
from tideline.table.schema import COLUMNS, STAGING, landing_folder

_WRITER = {
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Each task moves its own files. Partial results do no harm: nothing reads this folder yet.
    "mapreduce.fileoutputcommitter.algorithm.version": "2",
}


def write_files(rows: DataFrame, job: SparkJob) -> None:
    """Write data files into the attempt's own folder; the run commits them to the table later."""
    reach("spark:writing")
    writer = rows.write.options(**_WRITER).partitionBy(*job.partition_by)
    writer.parquet(f"{job.table_uri.rstrip('/')}/{landing_folder(job.plan_id, job.token)}")
    reach("spark:written")


def replace_ranges(rows: DataFrame, job: SparkJob) -> None:
    """Replace the rows at the planned coordinates, in one Delta transaction.

    The attempt's fencing token is Delta's transaction version. If a newer attempt has committed,
    Delta skips this write without an error; if both write at the same time, this one fails. So the
    run looks for its commit afterwards.

    Raises:
        AttemptFenced: A newer attempt has committed; this one has changed nothing.
    """
    reach("spark:writing")
    try:
        (
            rows.write.format("delta")
            .mode("overwrite")
            .option("replaceWhere", coordinates_predicate(job.ranges))
            .option("txnAppId", job.app_id)
            .option("txnVersion", str(job.token))
            .option("userMetadata", job.commit_metadata())
            .save(job.table_uri)
        )
    except (PySparkException, Py4JJavaError) as error:
        if "DELTA_CONCURRENT_TRANSACTION" not in str(error):
            raise
        raise AttemptFenced(
            f"plan {job.plan_id}: attempt {job.token} committed nothing, because a newer attempt"
            f" has committed to {job.table_uri}; run again, the ledger knows what is done",
            plan_id=job.plan_id,
            token=job.token,
        ) from error
    reach("spark:written")


def stage(rows: DataFrame, job: SparkJob) -> SparkResult:
    """Read the rows into the staging folder, and count them (R4)."""
    rows.write.parquet(_staged(job))
    reach("spark:staged")
    counts = (
        staged_rows(rows.sparkSession, job)
        .groupBy("topic_id", "generation", "partition")
        .agg(F.countDistinct("offset").alias("rows"), F.count("*").alias("copies"))
        .collect()
    )
    staged = tuple(
        StagedRows(PartitionIdentity(c["topic_id"], c["generation"], c["partition"]), c["rows"])
        for c in counts
    )
    return SparkResult(rows=sum(c["copies"] for c in counts), staged=staged)


def staged_rows(spark: SparkSession, job: SparkJob) -> DataFrame:
    """The rows that this attempt has staged."""
    schema = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    return spark.read.schema(schema).parquet(_staged(job))


def no_rows(spark: SparkSession) -> DataFrame:
    """An empty frame with the table's columns; replacing a range by it removes the rows (R6)."""
    schema = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    return spark.createDataFrame([], schema)


def publish(spark: SparkSession, job: SparkJob) -> None:
    """Replace the rows at the planned coordinates by the staged ones, if their number is right.

    Raises:
        ReplayUnavailable: The staging folder holds another number of rows than were counted; the
            table's rows stay.
        AttemptFenced: A newer attempt has committed; this one has changed nothing.
    """
    staged = staged_rows(spark, job)
    if (count := staged.count()) != job.staged_rows:
        raise ReplayUnavailable(
            f"replay_unavailable: plan {job.plan_id}: {job.staged_rows} rows were staged, {count}"
            " are in the staging folder now; the table's rows stay, run again",
            plan_id=job.plan_id,
        )
    replace_ranges(staged, job)
    reach("spark:published")


def _staged(job: SparkJob) -> str:
    return f"{job.table_uri.rstrip('/')}/{STAGING}/{job.plan_id}-{job.token}"
