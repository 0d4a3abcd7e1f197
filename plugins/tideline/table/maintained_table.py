"""A table whose small files are merged, and whose old ones are deleted: what maintenance needs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from deltalake import exceptions as delta_errors
from pyarrow.fs import FileSelector

from tideline.errors import BadInput
from tideline.model.maintenance import FileCount, FileMerge, PlannedRows, TableFile, TableSize
from tideline.table.commit import refuse_unwritable
from tideline.table.delta_table import TargetTable
from tideline.table.opened import Opened, active_files
from tideline.table.rewriting import merge_files
from tideline.table.rows import rows_of_plans
from tideline.table.schema import TableChange
from tideline.table.statistics import DataFile

_RETENTION = "delta.deletedFileRetentionDuration"
_TOO_SHORT = "Invalid retention period"
"""In delta-rs' message where that property asks for more."""
_LOG = "_delta_log/"
_HOURS = {"week": 168.0, "day": 24.0, "hour": 1.0, "minute": 1 / 60, "second": 1 / 3600}
"""In the units that Delta's intervals are given in."""


def _holds(file: DataFile) -> dict[str, str | int]:
    """What files have in common that are merged: one log, if that is to be seen."""
    hint = {} if file.topic_hint is None else {"topic_id": file.topic_hint}
    return {**file.constants, **hint}


class MaintainedTable(TargetTable):
    """One Delta table: implements `MaintainedTablePort`, which documents the methods."""

    def files(self, version: int | None = None) -> tuple[TableFile, ...]:
        """The data files of one version."""
        table = self._open(version)
        if table is None:
            return ()
        return tuple(
            TableFile(
                path=file.path,
                bytes=file.size or 0,
                rows=file.rows,
                partition=tuple((file.partition or {}).items()),
                holds=tuple(sorted(_holds(file).items())),
                low=file.low,
            )
            for file in active_files(table)
        )

    def size(self) -> TableSize | None:
        """The table now, and what lies in its folder."""
        table = self._open(None)
        if table is None:
            return None
        active = FileCount.of(file.size or 0 for file in active_files(table))
        return TableSize(table.version(), active, FileCount.of(self._stored(table).values()))

    def rows_of_plans(self, plans: Collection[str]) -> PlannedRows:
        """Where a quarantine's rows are, by the plan that has put them there."""
        table = self._existing()
        with self._reachable():
            return rows_of_plans(table, self._options, plans)

    def merge(
        self, change: TableChange, groups: Sequence[Sequence[TableFile]]
    ) -> tuple[FileMerge, ...]:
        """Write one file for each group."""
        table = self._existing()
        refuse_unwritable(table, self._columns)
        store = self._store(table)
        with self._reachable():
            merges = [merge_files(store, table, group, change.folder) for group in groups]
        return tuple(merge for merge in merges if merge is not None)

    def kept_hours(self, hours: int) -> int:
        """For how long a vacuum keeps files, if it is asked for so long."""
        text = self._existing().metadata().configuration.get(_RETENTION, "")
        number, unit = ([*text.removeprefix("interval ").split(), "0", "hours"])[:2]
        own = float(number) * _HOURS.get(unit.rstrip("s"), 1.0)
        return max(hours, math.ceil(own))

    def cut_log(self) -> int:
        """Delete the log before the newest version."""
        self._existing()
        with self._reachable():
            return self._kept.cut()

    def vacuum(self, hours: int, *, delete: bool, at_once: bool = False) -> FileCount:
        """Delete files that the newest version does not need."""
        table = self._existing()
        with self._reachable():
            sizes = self._stored(table)
            self._refuse_tables_inside(sizes)
            found = self._vacuum(table, hours, delete=False, at_once=at_once)
            if found and delete:  # else there would be two empty commits
                found = self._vacuum(table, hours, delete=True, at_once=at_once)
        return FileCount.of(sizes.get(path, 0) for path in found)

    def _refuse_tables_inside(self, stored: Iterable[str]) -> None:
        """No file of another table is needed by this one: all of them would go."""
        logs = sorted(path for path in stored if f"/{_LOG}" in path)
        if logs:
            inside = logs[0].rpartition(f"/{_LOG}")[0]
            raise BadInput(
                f"table {self.uri}: another Delta table lies inside of its folder, in {inside}:"
                " deleting files that this table does not need would delete that table's. Nothing"
                " was deleted; give one of the two another folder"
            )

    def _vacuum(self, table: Opened, hours: int, *, delete: bool, at_once: bool) -> list[str]:
        """`full` finds what attempts have left, too; without it only what a commit has removed."""
        asked_for = _RETENTION in table.metadata().configuration and not at_once

        def vacuum(retention_hours: int | None) -> list[str]:
            return self._kept.delta_rs().vacuum(
                retention_hours,
                dry_run=not delete,
                enforce_retention_duration=asked_for,
                full=True,
            )

        try:
            return vacuum(hours)
        except delta_errors.DeltaError as error:
            if not asked_for or _TOO_SHORT not in str(error):
                raise
            return vacuum(None)  # as long as the table itself asks for

    def _stored(self, table: Opened) -> dict[str, int]:
        """Size of each file in the folder, but for the log's."""
        with self._reachable():
            listed = self._store(table).get_file_info(FileSelector("", recursive=True))
        return {f.path: int(f.size) for f in listed if f.is_file and not f.path.startswith(_LOG)}
