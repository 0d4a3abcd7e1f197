"""A Spark application's job as a private file, and the port that runs it.

    SparkJob        input of `spark_jobs/ingest_range.py`: what to read, and where to write it
    DecodeJob       input of `spark_jobs/decode_rows.py`: raw rows, and how to decode them

The files are JSON (`model.spark_job`), in a `launch.runtime.PrivateFolder`: jobs hold secrets. The
application removes its job once it is read, and writes its result to `result_path`, since an exit
status cannot hold it.

The applications do one thing each: they read, and write plain Parquet files, which a manifest
beside them names. They commit nothing to a table; the run does that (`TablePort.commit`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tideline.documents import load
from tideline.launch.programs import DECODE, application_for
from tideline.model.spark_job import DecodeJob, SparkJob


class SparkPort(Protocol):
    """Runs a Spark application; `launch.launcher.Launcher` does."""

    def submit(self, job_path: str) -> None:
        """Run the application on a job, and wait for its end.

        Edge cases:

        - The application fails: it writes a result with the error, if it gets that far, and
          ends with a status other than 0. The caller looks for the result first.
        - The application is killed: there is no result. Whatever lies in the attempt's folder is
          no part of the table.

        Args:
            job_path: File with one of the two jobs as JSON; it says which application it is for.

        Raises:
            ServiceAway: The application could not be started, or ended with a status other than 0.
        """


def read_job(job_path: str) -> SparkJob | DecodeJob:
    """The job in a file of this machine, for the application that it names."""
    text, where = Path(job_path).read_bytes(), f"job file {job_path}"
    if application_for(job_path) == DECODE:
        return load(DecodeJob, text, where)
    return load(SparkJob, text, where)
