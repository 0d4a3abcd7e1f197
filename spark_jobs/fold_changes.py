"""The Spark application that folds: changes of keys, and rows of touched buckets -> their new rows.

Usage: fold_changes.py JOB_FILE

JOB_FILE is the JSON of `tideline.model.spark_job.FoldJob`; the result goes to the path that it
names.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tideline.folding.spark.folding import fold
from tideline.model.spark_job import FoldJob, FoldResult
from tideline.spark.application import ALONE, Host, run_job
from tideline.spark.failures import failed_to_fold
from tideline.spark.raw_rows import pack_files
from tideline.spark.session import compile_plans


def execute(spark: SparkSession, job: FoldJob) -> FoldResult:
    """Fold the changes at the plan's coordinates, and write the buckets' new data files."""
    offsets = sum(len(planned.offsets) for planned in job.plan.ranges)
    rows = sum(state.rows for state in job.before)
    compile_plans(spark, for_offsets=offsets + rows, is_wide=True)
    pack_files(spark, files=1 + rows, offsets=0)  # a task for each small file would cost more
    return fold(spark, job)


def run(job_file: str, spark: SparkSession | None = None, host: Host = ALONE) -> FoldResult:
    """Run a job file to its result, good or bad; `run_job` says what each argument is for."""
    return run_job(job_file, (FoldJob, FoldResult), execute, failed_to_fold, spark, host)


if __name__ == "__main__":
    outcome = run(sys.argv[1])
    sys.exit(1 if outcome.error else 0)
