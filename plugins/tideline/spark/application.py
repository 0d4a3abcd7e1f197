"""What the Spark applications share: a job file in, a result file out."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol, TypeVar

from pyspark.sql import SparkSession

from tideline.documents import dump, load
from tideline.errors import TidelineError
from tideline.failpoints import reach
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
        job_file: Path of the job.
        kinds: Classes of the job and of its result.
        execute: Does the job.
        failed: The result of a job that failed by an error that is not ours.
        spark: A session that is there already.
        died: Says what has ended Spark, if it has ended: the error itself only says that it has.
    """
    kind, of_result = kinds
    job = load(kind, Path(job_file).read_bytes(), f"job file {job_file}")
    try:
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
    draft = Path(f"{job.result_path}.{os.getpid()}")
    draft.write_text(dump(result))
    draft.replace(job.result_path)
    reach("spark:answered")
    return result
