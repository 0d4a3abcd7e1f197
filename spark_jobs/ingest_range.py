"""The Spark application of one plan: source -> transforms -> sink -> result.

Usage: ingest_range.py JOB_FILE

JOB_FILE is the JSON of `tideline.launch.job.SparkJob`. The result goes to the path that the job
names, since an exit status loses an error's class and whether it may be tried again.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from tideline.documents import dump, load
from tideline.errors import TidelineError
from tideline.failpoints import reach
from tideline.launch.job import SparkJob, SparkResult
from tideline.spark.failures import failed
from tideline.spark.session import build_session, compile_plans
from tideline.spark.sink import write_files
from tideline.spark.source import read_ranges
from tideline.spark.transforms import to_table_rows


def execute(spark: SparkSession, job: SparkJob) -> SparkResult:
    """Read the job's ranges, and write them into data files."""
    reach("spark:started")
    compile_plans(spark, for_offsets=sum(len(planned.offsets) for planned in job.ranges))
    rows = read_ranges(spark, job).transform(to_table_rows(job.ranges, job.plan_id))
    return write_files(rows, job)


def run(
    job_file: str, spark: SparkSession | None = None, died: Callable[[], str | None] = lambda: None
) -> SparkResult:
    """Run a job file to its result, good or bad; never raises for a failed ingest.

    Args:
        job_file: Path of the job.
        spark: A session that is there already.
        died: Says what has ended Spark, if it has ended: the error itself only says that it has.
    """
    job = load(SparkJob, Path(job_file).read_bytes(), f"job file {job_file}")
    try:
        spark = spark or build_session(f"tideline {job.stream} {job.run_id}")
        result = execute(spark, job)
    except TidelineError as error:
        result = SparkResult(error=type(error).__name__, message=error.message)
    except Exception as error:
        with suppress(OSError):  # the log's disk may be full
            traceback.print_exc()
        cause = died()
        lost = SparkResult(error="ServiceAway", message=cause or "")
        result = lost if cause else failed(spark, job, error)
    draft = Path(f"{job.result_path}.{os.getpid()}")
    draft.write_text(dump(result))
    draft.replace(job.result_path)
    reach("spark:answered")
    return result


if __name__ == "__main__":
    outcome = run(sys.argv[1])
    sys.exit(1 if outcome.error else 0)
