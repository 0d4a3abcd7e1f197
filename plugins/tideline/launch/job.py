"""What the steps need from the world outside, as protocols; adapters provide it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from tideline.model.offsets import PartitionIdentity
from tideline.model.plan import PlannedRange
from tideline.table.schema import commit_metadata

SparkAction = Literal["append_files", "replace_where", "stage", "publish", "remove"]


@dataclass(frozen=True, slots=True)
class StagedRows:
    """How many distinct offsets of one partition are staged."""

    identity: PartitionIdentity
    rows: int


@dataclass(frozen=True, slots=True)
class SparkJob:
    """What the Spark application is given, as a file that only its owner can read.

    Args:
        token: The attempt's fencing token (R5).
        app_id: Delta application id that the token belongs to.
        kafka_options: Options of Spark's Kafka source; secret.
        result_path: Where the driver leaves a `SparkResult`.
        action: What to do: read into data files, which the run adds to the table; read and replace;
            read into the staging folder; replace by what is staged; or remove what stands at the
            coordinates (R6).
        staged_rows: How many rows are to be published, as counted when they were staged.
        partition_by: The table's partition columns, where data files are written.
    """

    stream: str
    ledger_id: str
    plan_id: str
    run_id: str
    token: int
    app_id: str
    table_uri: str
    isolation_level: str
    ranges: tuple[PlannedRange, ...]
    kafka_options: Mapping[str, str]
    result_path: str
    action: SparkAction = "replace_where"
    staged_rows: int = 0
    partition_by: tuple[str, ...] = ()

    def commit_metadata(self, **counts: int) -> str:
        """User metadata of the commit that it leads to; see `core.table.commit_mark`."""
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
    """How the Spark application ended; its exit status loses class and retriability.

    Args:
        rows: How many were staged, copies included.
        staged: What lies in the staging folder, per partition.
    """

    rows: int | None = None
    staged: tuple[StagedRows, ...] = ()
    error: str | None = None
    message: str = ""


class SparkPort(Protocol):
    """Runs the Spark application; see `adapters.spark_submit` and `airflow.operators`."""

    def submit(self, job_path: str) -> None:
        """Run it to its end.

        Raises:
            ServiceAway: It could not be started or ended badly.
        """
