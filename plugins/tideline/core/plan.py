"""Proposals and plans: the input of one run, before and after it is frozen."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tideline.core.observation import Observation
from tideline.core.offsets import OffsetRange, PartitionIdentity

Lane = Literal["live", "backfill"]
RunStatus = Literal["proposed", "planned", "done", "nothing_to_do", "superseded"]


@dataclass(frozen=True, slots=True)
class PlannedRange:
    """One partition's share of a run, `[start_offset, end_offset)`, and what was observed there."""

    topic: str
    topic_id: str
    generation: int
    partition: int
    start_offset: int
    end_offset: int
    leader_epoch: int | None
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int

    @property
    def identity(self) -> PartitionIdentity:
        """The log that the range belongs to."""
        return PartitionIdentity(self.topic_id, self.generation, self.partition)

    @property
    def offsets(self) -> OffsetRange:
        """The offsets to read."""
        return OffsetRange(self.start_offset, self.end_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} {self.offsets}"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What was asked of a run; a run id stands for one request for good."""

    lane: Lane = "live"

    @property
    def digest(self) -> str:
        """A fingerprint that differs where the request does."""
        canonical = json.dumps({"lane": self.lane}, sort_keys=True)
        return hashlib.sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class BatchProposal:
    """What a run would do; becomes a plan only after detection.

    Args:
        ranges: Non-empty ranges only, sorted by topic and partition.
        offset_lag: Offsets that the caps leave for later runs.
        head_digest: Fingerprint of the positions that it was made from.
        estimated_bytes: In the table, from the size of rows landed before; None before the first.
    """

    observation: Observation
    ranges: tuple[PlannedRange, ...]
    offset_lag: int
    isolation_level: str
    estimated_records: int
    head_digest: str
    estimated_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """The frozen input of one run (R1): every retry, clear and recovery executes exactly this.

    Args:
        plan_id: Derived from stream, ledger and the run id that froze it.
        table_id: Id of the target table; None when this plan's first attempt will create it.
        table_version: Newest version when frozen: the plan's own commits come after it.
    """

    plan_id: str
    run_id: str
    stream: str
    lane: Lane
    frozen_at: datetime
    request_digest: str
    cluster_id: str
    isolation_level: str
    ranges: tuple[PlannedRange, ...]
    offset_lag: int
    estimated_records: int
    estimated_bytes: int | None
    table_uri: str
    table_id: str | None
    table_version: int | None


def freeze(
    proposal: BatchProposal,
    *,
    stream: str,
    ledger_id: str,
    run_id: str,
    request: RunRequest,
    table_uri: str,
    now: datetime,
) -> BatchPlan:
    """The plan that a proposal becomes once nothing speaks against it."""
    name = json.dumps([ledger_id, stream, run_id])
    return BatchPlan(
        plan_id=hashlib.sha256(name.encode()).hexdigest()[:32],
        run_id=run_id,
        stream=stream,
        lane=request.lane,
        frozen_at=now,
        request_digest=request.digest,
        cluster_id=proposal.observation.cluster_id,
        isolation_level=proposal.isolation_level,
        ranges=proposal.ranges,
        offset_lag=proposal.offset_lag,
        estimated_records=proposal.estimated_records,
        estimated_bytes=proposal.estimated_bytes,
        table_uri=table_uri,
        table_id=proposal.observation.table.table_id,
        table_version=proposal.observation.table.version,
    )
