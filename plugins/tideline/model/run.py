"""What the ledger keeps of a run and of a rewind: of both the intent first, then the outcome."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime

from tideline.model.incident import Incident, Notice
from tideline.model.observation import Gap
from tideline.model.offsets import PartitionIdentity, ReadRange
from tideline.model.plan import BatchPlan, BatchProposal, RunStatus, VerifiedRange
from tideline.model.request import Lane, RunRequest
from tideline.model.timings import SparkTimes
from tideline.model.wording import how_many

_LABEL = re.compile(r"rewind-\d+ \(.*\)", re.DOTALL)
"""What `Rewind.label` makes, beside run ids, which stand in the same place."""


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One commit to the table.

    Args:
        table_id: Delta's id of the table.
        version: The version that the commit made.
        token: Fencing token of the attempt.
        rows: Rows written, as the commit itself counts them.
        bytes: Size of the data files written, in bytes.
        times: Of the attempt that made it; None for one of an older version.
    """

    table_id: str
    version: int
    token: int
    rows: int
    bytes: int
    times: SparkTimes | None = None


@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """Why offsets of one partition have no row, as the log showed it."""

    identity: PartitionIdentity
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Everything the ledger knows about one run id.

    Args:
        request_digest: Fingerprint of the request; the run id accepts no other one.
        updated_at: When the record last changed, UTC-aware.
        proposal: None until there is one.
        plan: None until frozen.
        finishes: The run whose open plan this run executes (R3); None if it executes its own.
        table_commit: The verified commit; None until verified.
        verified: The plan's ranges with rows and gaps; empty until verified.
        superseded_by: What took the place of this run's plan; None if nothing did.
        evidence: What the log showed at missing offsets. The log may expire, so it is kept.
        resolved: Incidents whose decisions this run has executed.
        notices: What the run reported without halting.
        request: What was requested.
        head_key: Key, in the ledger's history, of the head when this run closed; a rewind
            restores it. None while the run is open.
        begun_at: When it was first planned, UTC-aware; None for one of an older version.
        replaces: The run's earlier plan, if this is not its first one: it was undone by a rewind,
            or was a backfill's and could not be read. None otherwise.
    """

    run_id: str
    lane: Lane
    status: RunStatus
    request_digest: str
    updated_at: datetime
    proposal: BatchProposal | None = None
    plan: BatchPlan | None = None
    finishes: str | None = None
    table_commit: TableCommit | None = None
    verified: tuple[VerifiedRange, ...] = ()
    superseded_by: str | None = None
    evidence: tuple[PartitionEvidence, ...] = ()
    resolved: tuple[Incident, ...] = ()
    notices: tuple[Notice, ...] = ()
    request: RunRequest = field(default_factory=RunRequest)
    head_key: str | None = None
    replaces: str | None = None
    begun_at: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether a later live run has to finish this run's plan first (R3)."""
        return self.status == "planned"

    @property
    def is_to_execute(self) -> bool:
        """Whether there is a plan with ranges that no other run has taken over."""
        return self.status != "superseded" and self.plan is not None and bool(self.plan.ranges)

    @property
    def has_ended(self) -> bool:
        """Whether the same run id again is a replay: the plan stays what it is."""
        return self.status not in ("proposed", "planned") and not self.is_to_replan

    @property
    def is_undone(self) -> bool:
        """Whether a rewind has taken away what the run did."""
        by = self.superseded_by or ""
        return self.status == "superseded" and _LABEL.fullmatch(by) is not None

    @property
    def is_to_replan(self) -> bool:
        """Whether the run makes a new plan when it is asked for again.

        A live run that was superseded by another has left its offsets to that one. Nobody takes
        over what a backfill was asked for, or what a rewind has undone.
        """
        return self.status == "superseded" and (self.lane == "backfill" or self.is_undone)


@dataclass(frozen=True, slots=True)
class Closing:
    """How a run closed; one that was planned anew has closed more than once.

    Args:
        version: Version of the ledger that closed the run; runs closed together share it.
        first: The record when the run closed; replays and decisions may change it later.
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
        return f"{self.planned}: {how_many(self.rows, 'row')} ({self.reason})"


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
        asked_in: Airflow's Dag and run that asked for it; None for a command.
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
    asked_in: str | None = None

    @property
    def lost_rows(self) -> int:
        """Number of removed rows that cannot be read again."""
        return sum(item.rows for item in self.lost)

    @property
    def under_way(self) -> str:
        """What it keeps from going on while it is unfinished, and what to do."""
        return (
            f"{self.rewind_id} to run {self.to_run} was begun {self.begun_at:%Y-%m-%dT%H:%M:%S}Z by"
            f" {self.by} and is not finished: no run lands until it is. If it was cut off, give the"
            " same tideline rewind command again"
        )

    @property
    def label(self) -> str:
        """The `superseded_by` of the records that it undoes."""
        return f"{self.rewind_id} ({self.reason})"

    def __str__(self) -> str:
        state = (
            "UNFINISHED" if self.finished_at is None else f"{how_many(self.rows, 'row')} removed"
        )
        return f"{self.rewind_id}: to run {self.to_run} by {self.by} ({self.reason}): {state}"
