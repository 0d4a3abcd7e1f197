"""The Spark application of one plan: source -> transforms -> sink -> result.

Usage: ingest_range.py JOB_FILE

JOB_FILE is the JSON of `tideline.model.spark_job.SparkJob`. The result goes to the path that the
job names, since an exit status loses an error's class and whether it may be tried again.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from pyspark.sql import SparkSession

from tideline.model.spark_job import SparkJob, SparkResult
from tideline.spark.application import ALONE, Host, run_job
from tideline.spark.failures import failed
from tideline.spark.raw_rows import read_ranges, to_table_rows, write_files
from tideline.spark.session import compile_plans


def execute(spark: SparkSession, job: SparkJob) -> SparkResult:
    """Read the job's ranges, and write them into data files."""
    began = _now_ms()
    compile_plans(spark, for_offsets=sum(len(planned.offsets) for planned in job.ranges))
    rows = read_ranges(spark, job).transform(to_table_rows(job.ranges, job.plan_id))
    return replace(write_files(rows, job), began_ms=began, ended_ms=_now_ms())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def run(job_file: str, spark: SparkSession | None = None, host: Host = ALONE) -> SparkResult:
    """Run a job file to its result, good or bad; `run_job` says what each argument is for."""
    return run_job(job_file, (SparkJob, SparkResult), execute, failed, spark, host)


if __name__ == "__main__":
    outcome = run(sys.argv[1])
    sys.exit(1 if outcome.error else 0)
