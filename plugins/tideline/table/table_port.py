"""One Delta table, as a protocol for runs, and a wider one for maintenance.

`table.delta_table` and `table.maintained_table` implement them. Shapes:

    TableObservation    id, version and properties of the table, and its newest commits
    TableCommit         one commit of a plan: version, fencing token, rows, bytes
    LandedRange         rows and distinct offsets of one partition inside a planned range
    Stored              the same of one data file, with its duplicates
    TableChange         coordinates whose rows are replaced, and the attempt that does it
    WrittenRows         an attempt's data files and what they hold, before the commit
    TableFile           one data file as maintenance sees it
    FileMerge           files that one file with the same rows replaces

Versions are those of the Delta log; the first is 0. Spark writes data files, and these ports alone
commit: they read the log, footers and coordinate columns, and add, remove and rewrite files.

Errors that every method raises:

    ServiceAway     The store cannot be reached, or delta-rs cannot read the table there. Nothing
                    has been changed.

A table that does not exist is no error, except where a method says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa
from pyarrow.fs import FileSystem

from tideline.model.head import KnownCommit
from tideline.model.maintenance import FileCount, FileMerge, PlannedRows, TableFile, TableSize
from tideline.model.observation import TableObservation
from tideline.model.offsets import CoordinateRange, PartitionIdentity
from tideline.model.plan import DamagedFile, LandedRange, Stored, WrittenRows
from tideline.model.run import TableCommit
from tideline.model.spark_job import SparkResult
from tideline.table.schema import Field, PartitionFiles, TableChange

Stores = Callable[[str], FileSystem]
"""Gives the files of a table by its address; their paths are relative to it."""


class TablePort(Protocol):
    """One Delta table at one address."""

    uri: str
    """Its address."""

    def observe(self, known_version: int | None = None, at: int | None = None) -> TableObservation:
        """The newest version of the table, and who made the commits up to it.

        Edge cases:

        - No table: `exists` is false, everything else is empty.
        - A table of another program: `stream` and `ledger_id` are None.
        - A table older than `known_version`, for example restored: `newer` is empty and `version`
          is below `known_version`.
        - Commits that log cleanup has removed are absent from `newer`; compare its versions.

        Args:
            known_version: List the commits after this version (exclusive); None lists none.
            at: Tell of this version, which was just looked at; None looks for newer ones.
        """

    def newest_record(self, identity: PartitionIdentity) -> datetime | None:
        """The largest timestamp among a partition's rows, from file statistics.

        Files that hold rows of several partitions are left out, so it is a lower bound.

        Returns:
            UTC-aware. None if there is no table, no such file, no statistics, or only timestamps
            beyond year 9999.
        """

    def find_commit(
        self, plan_id: str, after_version: int | None, at: int | None = None
    ) -> TableCommit | None:
        """The newest commit whose metadata carries a plan's id.

        Args:
            after_version: Search after this version (exclusive); None searches from version 0.
            at: Search up to this version, which was just looked at; None looks for newer ones.

        Returns:
            None if there is no table, no version after `after_version`, or no such commit in
            the part of the log that is still there. Later commits may have removed its rows.
        """

    def commits_above(self, token: int) -> tuple[KnownCommit, ...]:
        """The commits of the table's ledger with a larger fencing token, newest first.

        Each has all its ranges, with the table's topic id for a topic's name, and with the leader
        epochs of a landing where the commit tells them.

        Args:
            token: The last one that the ledger has given out.

        Returns:
            Those in the part of the log that is still there; none if there is no table.
        """

    def newest_token(self, app_id: str, at: int | None = None) -> int | None:
        """The newest fencing token that the table has recorded for an application.

        It is Delta's transaction version (protocol, "Transaction Identifiers").

        Args:
            at: As of this version, which was just looked at; None looks for newer ones.

        Returns:
            None if there is no table, or the application has committed nothing.
        """

    def landed(
        self, ranges: Iterable[CoordinateRange], version: int
    ) -> dict[PartitionIdentity, LandedRange]:
        """Rows and distinct offsets inside ranges, in one version of the table.

        Statistics count only for files that are there with the size that the log says.

        Args:
            ranges: In any order; several per log are allowed.

        Returns:
            One entry per partition identity that has a row inside its ranges; rows outside do not
            count. Empty if there is no table.

        Raises:
            ServiceAway: Also for a version that is not in the log, or no longer.
            VerificationFailed: A data file is gone or cannot be read.
        """

    def stored(self, version: int | None = None) -> Iterator[Stored | DamagedFile]:
        """What every data file of one version holds, by coordinates.

        Args:
            version: None for the newest.

        Returns:
            One item per file and partition identity, files in the log's order. Duplicates within a
            file are in the item; those across files are for the caller to find. Nothing if there
            is no table. The identities are those of the rows themselves, whatever the log's
            statistics say. A file that cannot be read is an item of its own.
        """

    def create(
        self,
        stream: str,
        ledger_id: str,
        partition_by: Sequence[str],
        columns: Sequence[Field] | None = None,
        properties: Mapping[str, str] = {},
    ) -> None:
        """Create the table as version 0, without rows, with Tideline's table properties.

        A table that exists already is left as it is, also if another program made it.

        Args:
            stream: A table property, as the ledger's id is.
            partition_by: Columns whose values split the data files into folders, in order.
            columns: None for those of a raw table.
            properties: More of the table's properties.

        Raises:
            BadInput: The folder holds files, and no Delta table.
        """

    def add_columns(self, columns: Sequence[Field]) -> tuple[Field, ...]:
        """Add the columns that the table does not have yet, as a commit of its own, at the end.

        Args:
            columns: Those that are there already stay as they are.

        Returns:
            All columns that the table has now, in its order, partition columns included.

        Raises:
            BadInput: One of them is there with another type.
            CommitConflict: Another program has changed the table meanwhile.
        """

    def files_at(self, ranges: Iterable[CoordinateRange], version: int) -> tuple[str, ...]:
        """The data files that may hold rows at coordinates, by their statistics.

        Returns:
            Paths relative to the table, not URL-encoded, in the log's order.
        """

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Set the properties that have another value, in a commit of its own.

        One that the table lacks is empty.

        Raises:
            CommitConflict: Another program has changed the table meanwhile.
        """

    def columns(self) -> tuple[Field, ...]:
        """All columns of the newest version, in its order; none if there is no table."""

    def files_by(self, column: str, version: int) -> dict[str | None, PartitionFiles]:
        """The data files of each value of a partition column, with their rows by the log.

        Returns:
            Nothing if there is no table.
        """

    def spelled(self, keys: Iterable[Mapping[str, str]]) -> list[Mapping[str, str]]:
        """Keys with each value as its column's type spells it, and columns in one order.

        Raises:
            BadInput: A text is no value of its column's type.
        """

    def rows_with(
        self, keys: Sequence[Mapping[str, str | None]], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """The rows of the newest version whose columns have one of these keys' values.

        Args:
            keys: Values by column, as texts: those of bytes in hexadecimal digits; None for null.
                All have the same columns.
            columns: What is returned of each row; no partition columns but those of coordinates.

        Returns:
            In no order. Nothing if there is no table.

        Raises:
            BadInput: A text is no value of its column's type.
        """

    def scan(
        self,
        columns: Sequence[str],
        ranges: Iterable[CoordinateRange] | None = None,
        version: int | None = None,
    ) -> Iterator[pa.Table]:
        """Some columns of the rows, a data file at a time; `table.scans` asks its questions of it.

        Args:
            columns: A column that a file lacks is null in its rows.
            ranges: Only rows at these coordinates; None for all.
            version: None for the newest.

        Returns:
            One item per file that may hold such rows, with these columns in this order. Nothing if
            there is no table.
        """

    def rewritten(self, change: TableChange, result: SparkResult) -> tuple[str, ...]:
        """The data files of an attempt that replace whole files, held against Spark's report.

        As `written`, but for the coordinates: these rows are the last changes of their keys.

        Raises:
            VerificationFailed: As `written`.
        """

    def written(self, change: TableChange, result: SparkResult) -> WrittenRows:
        """The data files of an attempt and what they hold, held against Spark's report.

        A manifest in the attempt's folder names them. Other files there are those of tasks that
        failed or were too slow, and count for nothing.

        Coordinates are read, also where footers would do: as many rows as offsets may still be one
        offset twice and another not at all. Nothing is committed.

        Args:
            change: Says where the files lie, and which coordinates are planned.
            result: What Spark has reported: how many rows it counted.

        Raises:
            VerificationFailed: The manifest or a file that it names is missing or cannot be read,
                a path has a part that begins with `_` or `.`, the numbers of rows differ, or a row
                is not at a planned coordinate.
        """

    def commit(self, change: TableChange, files: Sequence[str], based_on: int) -> None:
        """Replace the rows at the change's coordinates by those of the files: one transaction.

        It is valid for exactly the version after `based_on`, and is never tried again as it is.
        It removes the files whose rows are all at the coordinates. It rewrites those that hold
        other rows too, without the rows at the coordinates. It adds `files`. The token is Delta's
        transaction version.

        Args:
            change: Coordinates, token, and what the commit says about itself.
            files: Data files of the attempt, as `written` has returned them; none to remove rows
                only.
            based_on: The version that the caller has checked.

        Raises:
            CommitConflict: The newest version is not `based_on`, holds the same or a newer token,
                or another commit came first; nothing has changed. The caller checks again.
            Halted: The table belongs to another ledger than the change's, or asks for Delta's own
                writer; nothing has changed.
            VerificationFailed: One of `files` is gone, or has another size; nothing has changed.
            ServiceAway: Also if it is not known whether the commit happened; `find_commit` tells.
        """

    def discard(self, change: TableChange) -> None:
        """Delete the attempt's folder, with data files that will never be committed.

        A folder that is not there is no error; nobody may do this to an attempt that has committed.
        """


class MaintainedTablePort(TablePort, Protocol):
    """A table whose files are merged and deleted, and whose rows stay as they are.

    `commit` of a change with merges replaces their old files by the new ones in one transaction,
    which says that no data has changed. It raises `CommitConflict` also if one of the old files is
    no longer part of the table.
    """

    def files(self, version: int | None = None) -> tuple[TableFile, ...]:
        """The data files of one version, in the log's order.

        Args:
            version: None for the newest.

        Returns:
            Nothing if there is no table.
        """

    def size(self) -> TableSize | None:
        """The table now, and what lies in its folder; None if there is no table."""

    def rows_of_plans(self, plans: Collection[str]) -> PlannedRows:
        """Where a quarantine's rows are, by the plan that has put them there; newest version."""

    def merge(
        self, change: TableChange, groups: Sequence[Sequence[TableFile]]
    ) -> tuple[FileMerge, ...]:
        """Write one file for each group into the attempt's folder; nothing is committed.

        Args:
            change: Says where the files go.
            groups: At least two files each, with the same partition values.

        Returns:
            One entry per group, without those whose files do not fit together.

        Raises:
            Halted: The table asks for Delta's own writer.
            VerificationFailed: A file is damaged, or holds another number of rows than the log
                says.
        """

    def kept_hours(self, hours: int) -> int:
        """For how long a vacuum keeps files; the table may ask for more than somebody does.

        Args:
            hours: What is asked for.

        Raises:
            BadInput: What the table asks for is no interval of Delta's.
        """

    def keep_for(self, hours: int) -> None:
        """Have the table ask for its files of older versions to be kept so long, or longer.

        Whoever writes a checkpoint forgets them then.
        """

    def cut_log(self) -> int:
        """Delete all entries of the table's log before the newest version; no time travel is left.

        Returns:
            How many files went.

        Raises:
            ServiceAway: Also where another program has deleted some; again later.
        """

    def vacuum(self, hours: int, *, delete: bool, at_once: bool = False) -> FileCount:
        """Delete files that the newest version does not need.

        These are files of older versions, removed that long ago, and files that no version names,
        written that long ago: what attempts have left. Names that begin with `_` or `.` at the top
        of the folder stay.

        Args:
            hours: How long ago. If the table's own `delta.deletedFileRetentionDuration` is longer,
                that counts.
            delete: Whether to delete, or only to count.
            at_once: Whether the table's own property counts for nothing.

        Returns:
            What was deleted, or would be.

        Raises:
            BadInput: Another table lies inside of the folder: its files are none of this one's. Or
                nobody knows how long the table asks for.
        """
