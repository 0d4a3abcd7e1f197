"""What the pipeline needs of the target table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol

from tideline.launch.job import SparkJob
from tideline.model.observation import TableObservation
from tideline.model.offsets import PartitionIdentity
from tideline.model.plan import PlannedRange
from tideline.model.run import TableCommit
from tideline.model.verification import LandedRange
from tideline.rules.audit import Stored


class TablePort(Protocol):
    """The target table, whose data files only Spark writes; see `adapters.delta_table`."""

    def observe(self, known_version: int | None = None) -> TableObservation:
        """The table as it is now, with the commits after a known version."""

    def newest_record(self, identity: PartitionIdentity) -> datetime | None:
        """The largest timestamp among a partition's rows, from file statistics."""

    def find_commit(self, plan_id: str, after_version: int | None) -> TableCommit | None:
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
            job: Of action `append_files`, done.
            checked_version: The table's version in which nothing stood at the coordinates.

        Raises:
            ServiceAway: The store cannot be reached, or others keep on committing.
        """

    def remove_staging(self, token: int) -> None:
        """Remove the rows that an attempt and older ones have staged."""
