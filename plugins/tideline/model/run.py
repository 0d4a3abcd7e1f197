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
from tideline.model.verification import VerifiedRange


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One commit to the table.

    Args:
        table_id: Delta's id of the table.
        version: The version that the commit made.
        token: The attempt's fencing token.
        rows: Rows written, by the commit's own metrics.
        bytes: Bytes of data files written.
    """

    table_id: str
    version: int
    token: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class PartitionEvidence:
    """What the log showed at offsets of one partition that have no row."""

    identity: PartitionIdentity
    gaps: tuple[Gap, ...]


@dataclass(frozen=True, slots=True)
class RunRecord:
    """Everything the ledger knows about one run id.

    Args:
        request_digest: Fingerprint of what was asked; the same run id cannot ask for more.
        request: What was asked.
        plan: None until frozen.
        finishes: The run whose open plan this one executes (R3), None for its own.
        table_commit: The verified commit; None until verified.
        verified: Ranges with rows and gaps, as verified.
        evidence: What the log showed at missing offsets; it can expire, so it is kept.
        resolved: Incidents whose decisions this run has executed.
        notices: What was worth telling and halted nothing.
        head_key: Names the head as this run's closing left it, in the history; a rewind goes there.
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

    @property
    def is_open(self) -> bool:
        """Whether a later live run has to settle it first (R3)."""
        return self.status == "planned"
