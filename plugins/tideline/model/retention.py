"""Quarantined rows that are old enough to go, and those that have gone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from tideline.model.coverage import Intervals, total
from tideline.model.offsets import CoordinateRange, PartitionIdentity

Places = Mapping[PartitionIdentity, Intervals]


@dataclass(frozen=True, slots=True)
class LetGo:
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
        rows: How many.
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
        topics: Names of topics by id.
        bytes: About the size of the chosen rows.
    """

    chosen: Places
    others: Places
    topics: Mapping[str, str]
    bytes: int

    @property
    def count(self) -> RowCount:
        """The chosen rows."""
        return RowCount(sum(total(r) for r in self.chosen.values()), self.bytes)

    def ranges(self, places: Places) -> tuple[CoordinateRange, ...]:
        """Places with the names of their topics."""
        return tuple(
            CoordinateRange(
                self.topics[i.topic_id],
                i.topic_id,
                i.generation,
                i.partition,
                r.start_offset,
                r.end_offset,
            )
            for i in sorted(places)
            for r in places[i]
        )
