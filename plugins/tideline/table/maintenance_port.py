"""The table that maintenance needs, as a protocol. `table.maintained_table` implements it.

Shapes are those of `model.maintenance`. Errors are those of `table.port`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from tideline.model.maintenance import FileCount, FileMerge, TableFile, TableSize
from tideline.model.retention import PlannedRows
from tideline.table.change import TableChange
from tideline.table.port import TablePort


class MaintainedTablePort(TablePort, Protocol):
    """A table whose files are merged and deleted, and whose rows stay as they are.

    `commit` of a change with merges replaces their old files by the new ones in one transaction,
    which says that no data has changed. It raises `CommitConflict` also if one of the old files is
    no longer part of the table.
    """

    uri: str
    """Its address."""

    def files(self, version: int | None = None) -> tuple[TableFile, ...]:
        """The data files of one version, in the log's order.

        Args:
            version: The version to read; None for the newest.

        Returns:
            Nothing if there is no table.
        """

    def size(self) -> TableSize | None:
        """The table now, and what lies in its folder; None if there is no table."""

    def rows_of_plans(self, plans: Collection[str]) -> PlannedRows:
        """Where a quarantine's rows are, by the plan that has put them there; newest version.

        Args:
            plans: Ids of the plans that are asked for.
        """

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

    def vacuum(self, hours: int, *, delete: bool) -> FileCount:
        """Delete files that the newest version does not need.

        These are files of older versions, removed that long ago, and files that no version names,
        written that long ago: what attempts have left. Names that begin with `_` or `.` at the top
        of the folder stay.

        Args:
            hours: How long ago. If the table's own `delta.deletedFileRetentionDuration` is longer,
                that counts.
            delete: Whether to delete, or only to count.

        Returns:
            What was deleted, or would be.

        Raises:
            BadInput: Another table lies inside of the folder: its files are none of this one's.
        """
