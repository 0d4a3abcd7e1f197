"""The target table that the pipeline needs, as a protocol. `table.delta_table` implements it.

Shapes:

    TableObservation       id, version and properties of the table, and its newest commits
    TableCommit            one commit of a plan: version, fencing token, rows, bytes
    LandedRange            rows and distinct offsets of one partition inside a planned range
    Stored                 the same for one data file, with its duplicates

Versions are those of the Delta log; the first is 0. Only Spark writes data files. This port reads
the log and the coordinate columns, and commits files that are already there.

Errors that every method raises:

    ServiceAway     The store cannot be reached, or delta-rs cannot read the table there. Nothing
                    has been changed.

A table that does not exist is no error, except where a method says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Protocol

from tideline.launch.job import SparkJob
from tideline.model.observation import TableObservation
from tideline.model.offsets import CoordinateRange, PartitionIdentity
from tideline.model.run import TableCommit
from tideline.model.verification import LandedRange
from tideline.rules.audit import Stored


class TablePort(Protocol):
    """One Delta table at one address."""

    def observe(self, known_version: int | None = None) -> TableObservation:
        """The newest version of the table, and who made the commits up to it.

        Edge cases:

        - No table: `exists` is false, everything else is empty.
        - A table of another program: `stream` and `ledger_id` are None.
        - A table older than `known_version`, for example restored: `newer` is empty and `version`
          is below `known_version`.
        - Commits that log cleanup has removed are absent from `newer`; compare its versions.

        Args:
            known_version: List the commits after this version (exclusive); None lists none.
        """

    def newest_record(self, identity: PartitionIdentity) -> datetime | None:
        """The largest timestamp among a partition's rows, from file statistics.

        Files that hold rows of several partitions are left out, so it is a lower bound.

        Args:
            identity: The partition.

        Returns:
            UTC-aware. None if there is no table, no such file, no statistics, or only timestamps
            beyond year 9999.
        """

    def find_commit(self, plan_id: str, after_version: int | None) -> TableCommit | None:
        """The newest commit whose metadata carries a plan's id.

        Args:
            plan_id: The plan.
            after_version: Search after this version (exclusive); None searches from version 0.

        Returns:
            None if there is no table, no version after `after_version`, or no such commit in
            the part of the log that is still there. Later commits may have removed its rows.
        """

    def newest_token(self, app_id: str) -> int | None:
        """The newest fencing token that the table has recorded for an application.

        It is Delta's transaction version (protocol, "Transaction Identifiers").

        Args:
            app_id: Delta application id.

        Returns:
            None if there is no table, or the application has committed nothing.
        """

    def landed(
        self, ranges: Iterable[CoordinateRange], version: int
    ) -> dict[PartitionIdentity, LandedRange]:
        """Rows and distinct offsets inside ranges, in one version of the table.

        Args:
            ranges: At most one per partition identity.
            version: The version to read.

        Returns:
            One entry per partition identity that has a row inside its range; rows outside do not
            count. Empty if there is no table.

        Raises:
            ServiceAway: Also for a version that is not in the log, or no longer.
        """

    def stored(self) -> Iterator[Stored]:
        """What every data file of the newest version holds, by coordinates.

        Returns:
            One item per file and partition identity, files in the log's order. Duplicates within a
            file are in the item; those across files are for the caller to find. Nothing if there
            is no table.
        """

    def create(self, stream: str, ledger_id: str, partition_by: Sequence[str]) -> None:
        """Create the table as version 0, without rows, with Tideline's table properties.

        A table that exists already is left as it is, also if another program made it.

        Args:
            stream: Name of the stream whose rows it will hold; a table property.
            ledger_id: Id of the ledger that records its rows; a table property.
            partition_by: Columns whose values split the data files into folders, in order.

        Raises:
            BadInput: The folder holds files, and no Delta table.
        """

    def add_files(self, job: SparkJob, checked_version: int) -> None:
        """Commit the data files that an attempt has written, as one version.

        The commit is skipped, without an error, in these cases. So the caller calls `find_commit`
        afterwards.

        - There is no table.
        - The table holds the same or a newer fencing token of the job's `app_id`.
        - The table's columns, features or partitioning are no longer those of the job.
        - The table has rows at the planned coordinates now.

        An attempt that has written no file commits a version without rows: every planned offset was
        a transaction marker or an aborted record.

        Args:
            job: Of action `append_files`; Spark has finished it.
            checked_version: A version without rows at the planned coordinates.

        Raises:
            VerificationFailed: A file holds rows outside of the planned coordinates.
            ServiceAway: Also if other writers committed first, ten times in a row.
        """

    def remove_staging(self, token: int) -> None:
        """Delete the staged rows of an attempt and of all older ones.

        Rows of newer attempts stay. A folder that is gone already is no error.

        Args:
            token: Fencing token of the attempt (inclusive).
        """
