"""What the Spark application is given and gives back, and the port that runs it.

Shapes:

    SparkJob        input: what to read, and where to write it; a file, readable by its owner
                    only, because it holds secrets; the application removes it once it is read
    SparkResult     output: a file that the driver writes, since an exit status cannot hold it
    Unreadable      part of the output of a job that failed at records
    DecodeJob       input of `spark_jobs/decode_rows.py`: raw rows, and how to decode them
    DecodeResult    its output
    PrivateFolder   where both files lie

The files are JSON. `SparkPort.submit` gets the path of the input; the output lies at its
`result_path`.

The applications do one thing each: they read, and write plain Parquet files, which a manifest
beside them names. They commit nothing to a table; the run does that (`TablePort.commit`).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from tideline.model.decoding import DecodePlan
from tideline.model.offsets import CoordinateRange
from tideline.model.unreadable import Unreadable


@dataclass(frozen=True, slots=True)
class SparkJob:
    """One piece of work for the Spark application.

    Args:
        stream, run_id: Name the application.
        plan_id: The plan that lands the rows; a column of each row.
        table_uri: Address of the target table.
        folder: The attempt's own folder, relative to the table's; data files go there.
        partition_by: The table's partition columns, in order.
        isolation_level: `read_committed` or `read_uncommitted`.
        ranges: Coordinates to read; ends are exclusive.
        kafka_options: Options of Spark's Kafka source; secret.
        result_path: Where the driver writes a `SparkResult`.
        unreadable: Coordinates inside the ranges that are not read: their loss is accepted.
        store_options: Properties of the file system that holds the table; not secret.
    """

    stream: str
    run_id: str
    plan_id: str
    table_uri: str
    folder: str
    partition_by: tuple[str, ...]
    isolation_level: str
    ranges: tuple[CoordinateRange, ...]
    kafka_options: Mapping[str, str] = field(repr=False)
    result_path: str = ""
    unreadable: tuple[CoordinateRange, ...] = ()
    store_options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SparkResult:
    """How the Spark application ended.

    Args:
        rows: Rows that were counted while they were written, duplicates included.
        error: Class of the error in `tideline.errors`; None after success.
        message: The error's message.
        unreadable: Where the error will come again.
    """

    rows: int = 0
    error: str | None = None
    message: str = ""
    unreadable: tuple[Unreadable, ...] = ()


@dataclass(frozen=True, slots=True)
class Output:
    """Where data files of one table go.

    Args:
        uri: Address of the table.
        folder: The attempt's own folder, relative to the table's.
        partition_by: The table's partition columns, in order.
    """

    uri: str
    folder: str
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DecodeJob:
    """One piece of work for the Spark application that decodes.

    Args:
        stream, run_id: Name the application.
        raw_uri: Address of the raw table.
        raw_files: Its data files that may hold rows at the plan's coordinates, in the version that
            the plan froze: paths relative to the table, not URL-encoded.
        plan: What is decoded, and how.
        decoded: The typed table.
        quarantine: The table of what cannot be decoded.
        is_last_round: Whether ids that the plan does not name count as unknown, for good.
        store_options: Properties of the file system that holds the tables; not secret.
        result_path: Where the driver writes a `DecodeResult`.
        application: Which application the file is for; a `SparkJob` says nothing.
    """

    stream: str
    run_id: str
    raw_uri: str
    raw_files: tuple[str, ...]
    plan: DecodePlan
    decoded: Output
    quarantine: Output
    is_last_round: bool = False
    store_options: Mapping[str, str] = field(default_factory=dict)
    result_path: str = ""
    application: Literal["decode_rows"] = "decode_rows"


@dataclass(frozen=True, slots=True)
class DecodeResult:
    """How the application that decodes has ended.

    Args:
        decoded: Rows for the typed table, kept tombstones included.
        quarantined: Rows for the quarantine.
        raw_rows: Raw rows that were read at the plan's coordinates.
        tombstones: Records without a value, kept or not.
        classes: Quarantined rows by error class.
        new_ids: Ids of schemas that records carry and the plan does not name, by part; if there
            are any, nothing else here counts, and the job is to be given again with them.
        error: Class of the error in `tideline.errors`; None after success.
        message: The error's message.
    """

    decoded: SparkResult = field(default_factory=SparkResult)
    quarantined: SparkResult = field(default_factory=SparkResult)
    raw_rows: int = 0
    tombstones: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    new_ids: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    error: str | None = None
    message: str = ""


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
