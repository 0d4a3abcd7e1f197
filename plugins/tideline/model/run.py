"""The outcome of one run, and the record that the ledger keeps of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from tideline.model.gaps import Gap
from tideline.model.incident import Incident
from tideline.model.notice import Notice
from tideline.model.offsets import PartitionIdentity
from tideline.model.plan import BatchPlan, BatchProposal, RunStatus
from tideline.model.request import Lane, RunRequest
from tideline.model.rewind_label import is_label
from tideline.model.verification import VerifiedRange


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One commit to the table.

    Args:
        table_id: Delta's id of the table.
        version: The version that the commit made.
        token: Fencing token of the attempt.
        rows: Rows written, as the commit itself counts them.
        bytes: Size of the data files written, in bytes.
    """

    table_id: str
    version: int
    token: int
    rows: int
    bytes: int


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

    @property
    def is_open(self) -> bool:
        """Whether a later live run has to finish this run's plan first (R3)."""
        return self.status == "planned"

    @property
    def is_to_execute(self) -> bool:
        """Whether there is a plan with ranges that no other run has taken over."""
        return self.status != "superseded" and self.plan is not None and bool(self.plan.ranges)

    @property
    def is_undone(self) -> bool:
        """Whether a rewind has taken away what the run did."""
        return self.status == "superseded" and is_label(self.superseded_by or "")

    @property
    def is_planned_anew(self) -> bool:
        """Whether the run makes a new plan when it is asked for again.

        A live run that was superseded by another has left its offsets to that one. Nobody takes
        over what a backfill was asked for, or what a rewind has undone.
        """
        return self.status == "superseded" and (self.lane == "backfill" or self.is_undone)
