"""The Spark application that decodes: raw files -> typed rows, and the quarantine -> result.

Usage: decode_rows.py JOB_FILE

JOB_FILE is the JSON of `tideline.model.spark_job.DecodeJob`; the result goes to the path that it
names.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tideline.decoding.spark.routing import write_types
from tideline.decoding.spark.row_columns import read_raw_rows
from tideline.decoding.spark.typed_writing import write_decoded
from tideline.model.spark_job import DecodeJob, DecodeResult
from tideline.spark.application import ALONE, Host, run_job
from tideline.spark.failures import failed_to_decode
from tideline.spark.raw_rows import pack_files
from tideline.spark.session import compile_plans


def execute(spark: SparkSession, job: DecodeJob) -> DecodeResult:
    """Decode the raw rows at the plan's coordinates, and write them into data files."""
    if not job.raw_files:
        return DecodeResult()
    offsets = sum(len(planned.offsets) for planned in job.plan.ranges)
    compile_plans(spark, for_offsets=offsets)
    pack_files(spark, files=job.files, offsets=offsets)
    write = write_types if job.types else write_decoded
    return write(read_raw_rows(spark, job), job)


def run(job_file: str, spark: SparkSession | None = None, host: Host = ALONE) -> DecodeResult:
    """Run a job file to its result, good or bad; `run_job` says what each argument is for."""
    return run_job(job_file, (DecodeJob, DecodeResult), execute, failed_to_decode, spark, host)


if __name__ == "__main__":
    outcome = run(sys.argv[1])
    sys.exit(1 if outcome.error else 0)
