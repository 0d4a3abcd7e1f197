"""A table's data files as maintenance sees them, what it did to them, and rows that it lets go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import WithJsonSchema

from tideline.model.offsets import CoordinateRange
from tideline.model.places import Places
from tideline.model.wording import how_many, size_text

TableRole = Annotated[
    str,
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^(raw|quarantine|current|decoded(:[a-z][a-z0-9_]{0,62})?)$",
        }
    ),
]
"""Which of a stream's tables: raw, decoded, quarantine, current. Where several event types have a
typed table each, it is decoded:TYPE."""
TableKind = Literal["raw", "decoded", "quarantine", "current"]
DERIVED = ("decoded", "quarantine")
"""Kinds of tables that decoding makes of the raw one."""


def role_of(event_type: str) -> TableRole:
    """The role of an event type's typed table; of the only one for an empty name."""
    return f"decoded:{event_type}" if event_type else "decoded"


def kind_of(role: TableRole) -> TableKind:
    """What kind of table has a role."""
    kind: Any = role.partition(":")[0]
    found: TableKind = kind
    return found


@dataclass(frozen=True, slots=True)
class ExpiredRows:
    """Quarantined rows that maintenance was about to remove; the audit does not miss them.

    Args:
        let_go_id: Its name in the ledger's history.
        run_id: The run that removed them.
        by: Which setting asked for it, as `maintenance.quarantine_days: 90`.
        at: When, UTC-aware.
        ranges: Their coordinates, and no others.
    """

    let_go_id: str
    run_id: str
    by: str
    at: datetime
    ranges: tuple[CoordinateRange, ...]


@dataclass(frozen=True, slots=True)
class RowCount:
    """A number of rows, and about their size in data files.

    Args:
        bytes: Their share of the files that they are in.
    """

    rows: int
    bytes: int


NO_ROWS = RowCount(0, 0)


@dataclass(frozen=True, slots=True)
class PlannedRows:
    """The rows of a quarantine, by the plan that has put them there.

    Args:
        chosen: Where the rows of the plans are that were asked for.
        others: Where all other rows are.
        bytes: About the size of the chosen rows.
    """

    chosen: Places
    others: Places
    topics: Mapping[str, str]
    bytes: int

    @property
    def count(self) -> RowCount:
        """The chosen rows."""
        return RowCount(self.chosen.offsets, self.bytes)

    def ranges(self, places: Places) -> tuple[CoordinateRange, ...]:
        """Places with the names of their topics."""
        return places.ranges(self.topics)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One active data file.

    Args:
        path: As in the table's log: URL-encoded, relative to the table.
        rows: Number of rows, as the log says; None if it does not.
        holds: Identity columns that have one value in the whole file, by name.
        low: Smallest offset (inclusive); None without statistics.
    """

    path: str
    bytes: int
    rows: int | None
    partition: tuple[tuple[str, str | None], ...] = ()
    holds: tuple[tuple[str, str | int], ...] = ()
    low: int | None = None


@dataclass(frozen=True, slots=True)
class FileMerge:
    """Files that one file with the same rows replaces.

    Args:
        old: Paths as in the table's log.
        new: Relative to the table, not URL-encoded.
    """

    old: tuple[str, ...]
    new: str
    bytes: int
    partition: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class FileCount:
    """A number of files, and their size together."""

    files: int
    bytes: int

    @classmethod
    def of(cls, sizes: Iterable[int]) -> FileCount:
        """The sum of some files."""
        every = list(sizes)
        return cls(len(every), sum(every))

    def __str__(self) -> str:
        return f"{how_many(self.files, 'file')} ({size_text(self.bytes)})"


@dataclass(frozen=True, slots=True)
class TableSize:
    """A table at one moment: `active` are the files of its newest version, `stored` all files.

    Args:
        version: Its newest version.
        active: Data files of that version.
        stored: All files in the table's folder but the log's: also those of older versions, and
            those that no version names.
    """

    version: int
    active: FileCount
    stored: FileCount


@dataclass(frozen=True, slots=True)
class TableUpkeep:
    """What maintenance did to one table, or would do.

    Args:
        merged: Small files that were replaced; in a dry run, that would be.
        written: The files that replaced them; in a dry run, how many, and the size at most.
        vacuumed: Files that were deleted; in a dry run, that would be.
        expired: Rows of the quarantine that were removed for their age; in a dry run, that would
            be.
        after: After the last change; None in a dry run.
    """

    table: TableRole
    uri: str
    before: TableSize
    merged: FileCount
    written: FileCount
    vacuumed: FileCount
    expired: RowCount
    after: TableSize | None

    def __str__(self) -> str:
        """One line, for logs."""
        then = "" if self.after is None else f"; {self.after.active} after"
        if self.expired.rows:
            then += f"; {how_many(self.expired.rows, 'quarantined row')} removed"
        return (
            f"{self.table} table {self.uri}: {self.before.active} before, {self.merged} merged into"
            f" {self.written}, {self.vacuumed} deleted{then}"
        )
