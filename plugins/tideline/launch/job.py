"""What the Spark application is given and gives back, and the port that runs it.

Shapes:

    SparkJob        input: what to read, and where and how to write it; a file, readable by its
                    owner only, because it holds secrets
    SparkResult     output: a file that the driver writes, since an exit status cannot hold it
    StagedRows      part of the output of action `stage`

Both files are JSON. `SparkPort.submit` gets the path of the first; the second lies at
`SparkJob.result_path`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from tideline.model.offsets import CoordinateRange, PartitionIdentity
from tideline.table.schema import commit_metadata

SparkAction = Literal["append_files", "replace_where", "stage", "publish", "remove"]


@dataclass(frozen=True, slots=True)
class StagedRows:
    """How many distinct offsets of one partition are staged."""

    identity: PartitionIdentity
    rows: int


@dataclass(frozen=True, slots=True)
class SparkJob:
    """One piece of work for the Spark application.

    The actions:

    - `append_files`: Read the ranges into data files. `TablePort.add_files` commits them.
    - `replace_where`: Read the ranges, and replace the rows at their coordinates in one commit.
    - `stage`: Read the ranges into the staging folder, and count them (R4).
    - `publish`: Replace the rows at the coordinates by the staged ones, in one commit (R4).
    - `remove`: Remove the rows at the coordinates, in one commit (R6).

    Args:
        token: The attempt's fencing token (R5); grows with every attempt.
        app_id: Delta application id that the token belongs to.
        table_uri: Address of the target table.
        isolation_level: `read_committed` or `read_uncommitted`.
        ranges: Coordinates to read, replace or remove; ends are exclusive.
        kafka_options: Options of Spark's Kafka source; secret.
        result_path: Where the driver writes a `SparkResult`.
        action: One of the actions above.
        staged_rows: For `publish`: how many rows were counted when they were staged.
        partition_by: For `append_files`: the table's partition columns, in order.
    """

    stream: str
    ledger_id: str
    plan_id: str
    run_id: str
    token: int
    app_id: str
    table_uri: str
    isolation_level: str
    ranges: tuple[CoordinateRange, ...]
    kafka_options: Mapping[str, str]
    result_path: str
    action: SparkAction = "replace_where"
    staged_rows: int = 0
    partition_by: tuple[str, ...] = ()

    def commit_metadata(self, **counts: int) -> str:
        """User metadata of the commit that this job makes; see `table.schema.commit_metadata`."""
        return commit_metadata(
            ledger_id=self.ledger_id,
            plan_id=self.plan_id,
            run_id=self.run_id,
            token=self.token,
            ranges=self.ranges,
            **counts,
        )


@dataclass(frozen=True, slots=True)
class SparkResult:
    """How the Spark application ended.

    Args:
        rows: Rows staged, duplicates included; None unless the action was `stage`.
        staged: Distinct offsets staged, per partition identity; empty unless the action was
            `stage`. A partition without rows is absent.
        error: Class of the error in `tideline.errors`; None after success.
        message: The error's message.
    """

    rows: int | None = None
    staged: tuple[StagedRows, ...] = ()
    error: str | None = None
    message: str = ""


class SparkPort(Protocol):
    """Runs the Spark application; `launch.launcher.Launcher` does."""

    def submit(self, job_path: str) -> None:
        """Run the application on a job, and wait for its end.

        Edge cases:

        - The application fails: it writes a `SparkResult` with the error, if it gets that far, and
          ends with a status other than 0. The caller looks for the result first.
        - The application is killed: there is no result, and the commit may or may not have
          happened. The caller looks for the commit in the table.

        Args:
            job_path: File with a `SparkJob` as JSON.

        Raises:
            ServiceAway: The application could not be started, or ended with a status other than 0.
        """
