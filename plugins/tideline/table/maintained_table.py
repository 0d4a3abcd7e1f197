"""A table whose small files are merged, and whose old ones are deleted: what maintenance needs."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from pyarrow.fs import FileSelector

from tideline.delta.delta_properties import (
    ALLOWED,
    DELETED,
    DELETED_HOURS,
    HOUR_MS,
    is_known_to_delta_rs,
    kept_for,
    kept_ms,
)
from tideline.errors import BadInput
from tideline.model.maintenance import FileCount, FileMerge, PlannedRows, TableFile, TableSize
from tideline.table.commit import refuse_unwritable
from tideline.table.delta_table import TargetTable
from tideline.table.opened import Opened, active_files
from tideline.table.rewriting import merge_files
from tideline.table.rows import rows_of_plans
from tideline.table.schema import TableChange
from tideline.table.statistics import DataFile

_LOG = "_delta_log/"


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
            return rows_of_plans(table, self._rows(table), plans)

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
        properties = self._existing().metadata().configuration
        if (own := kept_ms(properties, DELETED, 0)) is None:
            raise BadInput(
                f"table {self.uri}: its property {DELETED} is {properties[DELETED]!r}, which is no"
                " interval of Delta's, so nobody knows how long files of older versions have to"
                f" stay. Nothing was deleted. Give the property an allowed form: {ALLOWED}"
            )
        return max(hours, math.ceil(own / HOUR_MS))

    def keep_for(self, hours: int) -> None:
        """Have whoever writes the log keep files of older versions so long; delta-rs is one."""
        kept = self.kept_hours(max(hours, DELETED_HOURS))
        is_read = is_known_to_delta_rs(self._existing().metadata().configuration, DELETED)
        if not is_read or self.kept_hours(DELETED_HOURS) < kept:
            self.set_properties(kept_for(kept))

    def cut_log(self) -> int:
        """Delete the log before the newest version."""
        self._existing()
        with self._reachable():
            return self._kept.cut()

    def vacuum(self, hours: int, *, delete: bool, at_once: bool = False) -> FileCount:
        """Delete files that the newest version does not need."""
        table, hours = self._existing(), hours if at_once else self.kept_hours(hours)
        with self._reachable():
            sizes = self._stored(table)
            self._refuse_tables_inside(sizes)
            found = self._vacuum(hours, delete=False)
            if found and delete:  # else there would be two empty commits
                found = self._vacuum(hours, delete=True)
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

    def _vacuum(self, hours: int, *, delete: bool) -> list[str]:
        """`full` finds what attempts have left, too; without it only what a commit has removed."""
        return self._kept.delta_rs().vacuum(
            hours,
            dry_run=not delete,
            enforce_retention_duration=False,  # delta-rs reads few intervals: ours are read here
            full=True,
        )

    def _stored(self, table: Opened) -> dict[str, int]:
        """Size of each file in the folder, but for the log's."""
        with self._reachable():
            listed = self._store(table).get_file_info(FileSelector("", recursive=True))
        return {f.path: int(f.size) for f in listed if f.is_file and not f.path.startswith(_LOG)}
