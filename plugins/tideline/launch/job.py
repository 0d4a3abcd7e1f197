"""A Spark application's job as a private file, and the port that runs it.

    SparkJob        input of `spark_jobs/ingest_range.py`: what to read, and where to write it
    DecodeJob       input of `spark_jobs/decode_rows.py`: raw rows, and how to decode them
    PrivateFolder   where job and result lie, readable by their owner only: jobs hold secrets

The files are JSON (`model.spark_job`). The application removes its job once it is read, and writes
its result to `result_path`, since an exit status cannot hold it.

The applications do one thing each: they read, and write plain Parquet files, which a manifest
beside them names. They commit nothing to a table; the run does that (`TablePort.commit`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tideline.documents import load
from tideline.launch.programs import DECODE, application_for
from tideline.model.spark_job import DecodeJob, SparkJob

PREFIX = "tideline-job-"


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
            job_path: File with a `SparkJob` or a `DecodeJob` as JSON; it says which application
                it is for.

        Raises:
            ServiceAway: The application could not be started, or ended with a status other than 0.
        """


def read_job(job_path: str) -> SparkJob | DecodeJob:
    """The job in a file of this machine, for the application that it names.

    Raises:
        UnreadableDocument: It is damaged, or of another version.
    """
    text, where = Path(job_path).read_bytes(), f"job file {job_path}"
    if application_for(job_path) == DECODE:
        return load(DecodeJob, text, where)
    return load(SparkJob, text, where)


class PrivateFolder:
    """A folder for a job and its result, of mode 0700, until `remove` or this process ends.

    As a context manager it gives its path, and goes at the end of the block. Its owner keeps a lock
    on it, which the system gives back when the process has ended, however it has. Whoever makes the
    next one removes those of this user that nobody has locked: so no kill keeps a secret.
    """

    def __init__(self) -> None:
        _sweep(Path(tempfile.gettempdir()))
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
            try:
                self._lock = _opened(self.path)
            except FileNotFoundError:
                continue  # somebody sweeps, and has taken it for one that was left
            with suppress(OSError):  # where nothing can be locked, nobody sweeps either
                fcntl.flock(self._lock, fcntl.LOCK_SH)  # after who sweeps it now
            if _is(self.path, self._lock):
                return
            os.close(self._lock)

    def remove(self) -> None:
        """Remove it and what it holds; does nothing if that has happened."""
        if self._lock >= 0:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _sweep(place: Path) -> None:
    """Remove what dead processes of this user have left; links are not followed."""
    with os.scandir(place) as entries:
        names = [entry.path for entry in entries if entry.name.startswith(PREFIX)]
    for name in names:
        with suppress(OSError):  # gone meanwhile, or another user's, or its owner lives
            _remove_left(Path(name))


def _remove_left(folder: Path) -> None:
    lock = _opened(folder)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is(folder, lock):
                shutil.rmtree(folder)
    finally:
        os.close(lock)


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _is(folder: Path, descriptor: int) -> bool:
    """Whether a path still names the folder that was opened."""
    try:
        return os.path.samestat(folder.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
