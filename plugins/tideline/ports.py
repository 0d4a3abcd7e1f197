"""What the steps need from the world outside, as protocols; adapters provide it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

from tideline.core.audit import Stored
from tideline.core.coverage import Intervals
from tideline.core.gap_evidence import Gap
from tideline.core.observation import Observation, TableObservation, TimedOffset
from tideline.core.offsets import PartitionIdentity, Place
from tideline.core.plan import PlannedRange
from tideline.core.result import Landing
from tideline.core.table import commit_mark
from tideline.core.verification import LandedRange


class KafkaPort(Protocol):
    """Offsets, ids and epochs of one cluster; see `adapters.kafka_client`."""

    def topics_matching(self, pattern: str) -> list[str]:
        """Topic names that the whole pattern matches."""

    def observe(self, topics: Iterable[str], epochs: Mapping[Place, int]) -> Observation:
        """One look at the named topics, with end offsets of the given epochs."""

    def offsets_at(
        self, instant: datetime, partitions: Iterable[Place]
    ) -> dict[Place, TimedOffset | None]:
        """First record at or after an instant; None where there is none."""

    def committed_offsets(self, group: str, partitions: Iterable[Place]) -> dict[Place, int | None]:
        """Next offsets that a group has committed; None where it has not."""

    def examine(
        self, missing: Mapping[Place, Intervals], isolation_level: str
    ) -> dict[Place, tuple[Gap, ...]]:
        """Why offsets have no row, from the batches that the log holds there."""

    def written_at(self, offsets: Mapping[Place, int]) -> dict[Place, datetime | None]:
        """When the first record at or after an offset was written; None where unknown."""

    def retention_ms(self, topics: Iterable[str]) -> dict[str, int | None]:
        """The time after which topics delete records; None where time deletes nothing."""

    def compacted(self, topics: Iterable[str]) -> set[str]:
        """Those topics whose log may have lost records to compaction."""

    def commit_group(self, group: str, next_offsets: Mapping[Place, int]) -> None:
        """Tell a group its next offsets."""


class TablePort(Protocol):
    """The target table, whose data files only Spark writes; see `adapters.delta_table`."""

    def observe(self, known_version: int | None = None) -> TableObservation:
        """The table as it is now, with the commits after a known version."""

    def newest_record(self, identity: PartitionIdentity) -> datetime | None:
        """The largest timestamp among a partition's rows, from file statistics."""

    def find_landing(self, plan_id: str, after_version: int | None) -> Landing | None:
        """The newest commit that carries the plan's id, looked for after a version."""

    def newest_token(self, app_id: str) -> int | None:
        """The transaction version that the table holds of an application; None where none is."""

    def landed(
        self, ranges: Iterable[PlannedRange], version: int
    ) -> dict[PartitionIdentity, LandedRange]:
        """Rows and distinct offsets inside the ranges, in one version."""

    def stored(self) -> Iterator[Stored]:
        """What every data file of the newest version holds, by coordinates."""

    def create(self, stream: str, ledger_id: str, partition_by: Sequence[str]) -> None:
        """Create the table with Tideline's marks and no rows; one that is there is left alone.

        Args:
            stream: Whose rows it will hold.
            ledger_id: The ledger that knows them.
            partition_by: Columns whose values split the data files into folders.

        Raises:
            BadInput: Its folder holds something else.
            ServiceAway: Its store cannot be reached.
        """

    def add_files(self, job: SparkJob, checked_version: int) -> None:
        """Commit the data files that an attempt has written, unless it is too late.

        One transaction: nothing happens, without an error, where a newer attempt has written or
        rows stand at the coordinates by now. So the caller looks for the commit afterwards.

        Args:
            job: Of action `write`, done.
            checked_version: The table's version in which nothing stood at the coordinates.

        Raises:
            ServiceAway: The store cannot be reached, or others keep on committing.
        """

    def remove_staging(self, token: int) -> None:
        """Remove the rows that an attempt and older ones have staged."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The ledger's documents at one version; -1 when there is no ledger yet."""

    version: int
    documents: Mapping[str, str]


HISTORY_KINDS = ("run", "incident", "instant", "head", "rewind")
"""What the history keeps; each kind is read without touching the others."""


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """A closed record of one of `HISTORY_KINDS`; the newest version of a key counts.

    Args:
        version: The commit that wrote it, and all that it wrote; -1 for the one that will.
        recorded_at: When it was first written; None for now.
    """

    kind: str
    key: str
    body: str
    version: int = -1
    recorded_at: datetime | None = None


class LedgerStore(Protocol):
    """Named documents replaced by compare-and-swap, and an append-only history."""

    @property
    def location(self) -> str:
        """Where the ledger is, for people."""

    def read(self) -> Snapshot:
        """All documents at the newest version.

        Raises:
            ServiceAway: The store cannot be reached.
        """

    def commit(
        self,
        base: Snapshot,
        *,
        put: Mapping[str, str],
        drop: Iterable[str] = (),
        history: Iterable[HistoryEntry] = (),
    ) -> None:
        """Replace, remove and append in one step.

        A history entry that has a version keeps it, as one from another home does; later commits
        get larger ones.

        Raises:
            CommitConflict: The store is no longer at `base.version`; nothing was written.
        """

    def history(self, kind: str, key: str | None = None) -> Iterator[HistoryEntry]:
        """Closed records of a kind, oldest version first; of one key, or of all."""


SparkAction = Literal["write", "land", "stage", "publish", "remove"]


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
    action: SparkAction = "land"
    staged_rows: int = 0
    partition_by: tuple[str, ...] = ()

    def mark(self, **counts: int) -> str:
        """User metadata of the commit that it leads to; see `core.table.commit_mark`."""
        return commit_mark(
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
