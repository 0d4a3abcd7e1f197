"""A rewind as the ledger keeps it: what was meant before anything went, and how it ended. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tideline.model.plan import PlannedRange
from tideline.model.run import RunRecord


@dataclass(frozen=True, slots=True)
class Closing:
    """How a run closed.

    Args:
        version: The ledger's version that closed it first; what closed together shares it.
        first: The record as it closed first: replays and decisions may have amended it since.
        newest: The record as it is now.
    """

    version: int
    first: RunRecord
    newest: RunRecord


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets of undone rows that Kafka can no longer serve.

    Args:
        planned: The part of an undone plan that is gone.
        rows: How many rows the table holds there.
        expired: Whether the log merely starts later, so that reading goes on behind it.
        reason: What stands in the way.
    """

    planned: PlannedRange
    rows: int
    expired: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.planned}: {self.rows} rows ({self.reason})"


@dataclass(frozen=True, slots=True)
class Rewind:
    """One rewind: what was meant, before anything is removed, and how it ended.

    Args:
        to_run: The run whose state is restored.
        head_key: Names that run's head in the history.
        undone_runs: Runs whose records become superseded.
        removes: Coordinates whose rows are removed.
        rows: How many rows stood there when it began.
        lost: The part of them that Kafka can no longer serve.
        known_version: Newest table version when it began; None without a table.
        removed_in_version: Table version that removed the rows; None where there were none.
        finished_at: None while it is under way.
    """

    rewind_id: str
    to_run: str
    reason: str
    by: str
    begun_at: datetime
    head_key: str
    undone_runs: tuple[str, ...] = ()
    removes: tuple[PlannedRange, ...] = ()
    rows: int = 0
    lost: tuple[Lost, ...] = ()
    known_version: int | None = None
    removed_in_version: int | None = None
    finished_at: datetime | None = None

    @property
    def lost_rows(self) -> int:
        """How many rows it removes for good."""
        return sum(item.rows for item in self.lost)

    @property
    def label(self) -> str:
        """Stands as `superseded_by` in what it undoes."""
        return f"{self.rewind_id} ({self.reason})"

    def __str__(self) -> str:
        state = "UNFINISHED" if self.finished_at is None else f"{self.rows} rows removed"
        return f"{self.rewind_id}: to run {self.to_run} by {self.by} ({self.reason}): {state}"
