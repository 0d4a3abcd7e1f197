"""Rewinds as the ledger records them: the intent first, then the outcome. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from tideline.model.plan import ReadRange
from tideline.model.rewind_label import label_of
from tideline.model.run import RunRecord


@dataclass(frozen=True, slots=True)
class Closing:
    """How a run closed; one that was planned anew has closed more than once.

    Args:
        version: Version of the ledger that closed the run; runs closed together share it.
        first: The record when the run closed; replays and decisions may change it later.
        newest: The record now.
    """

    version: int
    first: RunRecord
    newest: RunRecord


@dataclass(frozen=True, slots=True)
class Lost:
    """Offsets of rows that a rewind removes and Kafka can no longer serve.

    Args:
        planned: The part of an undone plan that is gone.
        rows: Number of rows that the table holds there.
        expired: Whether the log starts later now, so that what follows can still be read.
        reason: Why Kafka cannot serve them.
    """

    planned: ReadRange
    rows: int
    expired: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.planned}: {self.rows} rows ({self.reason})"


@dataclass(frozen=True, slots=True)
class Rewind:
    """One rewind. The ledger records it before any row is removed.

    Args:
        to_run: The run whose head is restored.
        reason: In the words of the person who requested it.
        by: Who requested it.
        begun_at: When it was recorded, UTC-aware.
        head_key: Key of that run's head in the ledger's history.
        undone_runs: Runs whose records become superseded.
        removes: Coordinates whose rows are removed.
        rows: Number of rows at these coordinates when it began.
        lost: The part of them that Kafka can no longer serve.
        known_version: Newest table version when it began; None without a table.
        removed_in_version: Table version that removed the rows; None if there were none.
        finished_at: When it ended, UTC-aware; None while it is unfinished.
    """

    rewind_id: str
    to_run: str
    reason: str
    by: str
    begun_at: datetime
    head_key: str
    undone_runs: tuple[str, ...] = ()
    removes: tuple[ReadRange, ...] = ()
    rows: int = 0
    lost: tuple[Lost, ...] = ()
    known_version: int | None = None
    removed_in_version: int | None = None
    finished_at: datetime | None = None

    @property
    def lost_rows(self) -> int:
        """Number of removed rows that cannot be read again."""
        return sum(item.rows for item in self.lost)

    @property
    def label(self) -> str:
        """The `superseded_by` of the records that it undoes."""
        return label_of(self.rewind_id, self.reason)

    def __str__(self) -> str:
        state = "UNFINISHED" if self.finished_at is None else f"{self.rows} rows removed"
        return f"{self.rewind_id}: to run {self.to_run} by {self.by} ({self.reason}): {state}"
