"""What the Spark application is given and gives back, and the port that runs it.

Shapes:

    SparkJob        input: what to read, and where to write it; a file, readable by its owner
                    only, because it holds secrets
    SparkResult     output: a file that the driver writes, since an exit status cannot hold it
    Unreadable      part of the output of a job that failed at records

Both files are JSON. `SparkPort.submit` gets the path of the first; the second lies at
`SparkJob.result_path`.

The application does one thing: it reads ranges and writes plain Parquet files. It commits nothing
to the table; the run does that (`TablePort.commit`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

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
    """

    stream: str
    run_id: str
    plan_id: str
    table_uri: str
    folder: str
    partition_by: tuple[str, ...]
    isolation_level: str
    ranges: tuple[CoordinateRange, ...]
    kafka_options: Mapping[str, str]
    result_path: str = ""
    unreadable: tuple[CoordinateRange, ...] = ()


@dataclass(frozen=True, slots=True)
class SparkResult:
    """How the Spark application ended.

    Args:
        rows: Rows that were counted while they were written, duplicates included.
        files: The data files that were written: paths relative to the table's folder, with `/`,
            not URL-encoded.
        error: Class of the error in `tideline.errors`; None after success.
        message: The error's message.
        unreadable: Where the error will come again.
    """

    rows: int = 0
    files: tuple[str, ...] = ()
    error: str | None = None
    message: str = ""
    unreadable: tuple[Unreadable, ...] = ()


class SparkPort(Protocol):
    """Runs the Spark application; `launch.launcher.Launcher` does."""

    def submit(self, job_path: str) -> None:
        """Run the application on a job, and wait for its end.

        Edge cases:

        - The application fails: it writes a `SparkResult` with the error, if it gets that far, and
          ends with a status other than 0. The caller looks for the result first.
        - The application is killed: there is no result. Whatever lies in the attempt's folder is
          no part of the table.

        Args:
            job_path: File with a `SparkJob` as JSON.

        Raises:
            ServiceAway: The application could not be started, or ended with a status other than 0.
        """
