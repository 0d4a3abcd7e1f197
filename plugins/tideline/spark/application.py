"""What the Spark applications share: a job file in, a result file out."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Protocol, TypeVar

from pyspark.sql import SparkSession

from tideline.documents import dump, load
from tideline.errors import TidelineError
from tideline.failpoints import reach
from tideline.spark.job_files import is_elsewhere, read_file, remove_file, with_secrets, write_file
from tideline.spark.session import build_session


class Job(Protocol):
    """What every job names."""

    @property
    def stream(self) -> str:
        """Names the application."""

    @property
    def run_id(self) -> str:
        """So does the run."""

    @property
    def store_options(self) -> Mapping[str, str]:
        """Properties of the file system that holds the tables."""

    @property
    def result_path(self) -> str:
        """Where the result goes."""


class Result(Protocol):
    """What every result may be: an error."""

    def __init__(self, *, error: str, message: str) -> None: ...


AJob = TypeVar("AJob", bound=Job)
AResult = TypeVar("AResult", bound=Result)


def run_job(
    job_file: str,
    kinds: tuple[type[AJob], type[AResult]],
    execute: Callable[[SparkSession, AJob], AResult],
    failed: Callable[[SparkSession | None, AJob, Exception], AResult],
    spark: SparkSession | None,
    died: Callable[[], str | None],
) -> AResult:
    """Run a job file to its result, good or bad; never raises for a job that fails.

    Args:
        job_file: Path of the job, or its address if the driver is on another machine.
        kinds: Classes of the job and of its result.
        execute: Does the job.
        failed: The result of a job that failed by an error that is not ours.
        spark: A session that is there already.
        died: Says what has ended Spark, if it has ended: the error itself only says that it has.
    """
    kind, of_result = kinds
    if is_elsewhere(job_file):
        spark = build_session(None)
    job = load(kind, read_file(job_file, spark), f"job file {job_file}")
    remove_file(job_file)  # it holds secrets, and nobody reads it again
    try:
        job = with_secrets(job)
        spark = spark or build_session(f"tideline {job.stream} {job.run_id}")
        for key, value in job.store_options.items():
            spark.conf.set(key, value)  # Spark passes a session's settings on to file systems
        reach("spark:started")
        result = execute(spark, job)
    except TidelineError as error:
        result = of_result(error=type(error).__name__, message=error.message)
    except Exception as error:
        with suppress(OSError):  # the log's disk may be full
            traceback.print_exc()
        cause = died()
        lost = of_result(error="ServiceAway", message=cause or "")
        result = lost if cause else failed(spark, job, error)
    write_file(job.result_path, dump(result), spark)
    reach("spark:answered")
    return result
