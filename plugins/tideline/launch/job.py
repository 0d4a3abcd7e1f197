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
import json
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol


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


PREFIX = "tideline-job-"


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


class Watcher(Protocol):
    """Shows a person how far a job is; `cli.progress.ProgressLine` does."""

    def begin(self, partitions: int, offsets: int) -> None:
        """A job is handed over.

        Args:
            partitions: How many ranges it reads.
            offsets: How many offsets they have: an upper bound of the records.
        """

    def update(self, tasks: int, of_tasks: int, records: int) -> None:
        """It is as far as this.

        Args:
            tasks: How many tasks have ended.
            of_tasks: How many there are.
            records: How many records were read.
        """

    def end(self) -> None:
        """It has ended, in whatever way."""


def planned_work(job_path: str) -> tuple[int, int]:
    """How many ranges a job file reads, and how many offsets they have."""
    job: dict[str, Any] = json.loads(Path(job_path).read_text())
    ranges = job["plan"]["ranges"] if "plan" in job else job["ranges"]
    return len(ranges), sum(r["end_offset"] - r["start_offset"] for r in ranges)


def told(line: str) -> tuple[int, int, int] | None:
    """Tasks, all tasks and records, if a driver's line is about progress; None if it is not."""
    word, _, facts = line.partition(" ")
    if word != "progress":
        return None
    found = json.loads(facts)
    return found["tasks"], found["of_tasks"], found["records"]
