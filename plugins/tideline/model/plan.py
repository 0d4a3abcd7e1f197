"""Proposals and plans: the input of one run, before and after it is frozen."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tideline.model.coverage import Intervals
from tideline.model.observation import Observation
from tideline.model.offsets import CoordinateRange
from tideline.model.request import Lane, RunRequest

RunStatus = Literal["proposed", "planned", "done", "nothing_to_do", "superseded"]


@dataclass(frozen=True, slots=True)
class PlannedRange(CoordinateRange):
    """One partition's share of a run, and what was observed there when it was planned.

    Args:
        leader_epoch: Epoch of the leader that told the end; None for an empty log.
        log_start_offset: Oldest readable offset.
        high_watermark: Last replicated offset + 1.
        last_stable_offset: First offset of the oldest open transaction, else the high watermark.
    """

    leader_epoch: int | None
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True)
class Gone:
    """Offsets that a backfill asks for, Kafka has deleted, and the table does not hold.

    Args:
        uncertain: A window's first offset cannot be told any more: the loss may be smaller.
    """

    topic: str
    partition: int
    intervals: Intervals
    uncertain: bool = False

    def __str__(self) -> str:
        offsets = ", ".join(map(str, self.intervals))
        within = " (those of them that were written in the window)" if self.uncertain else ""
        return f"{self.topic}-{self.partition} {offsets}{within}"


@dataclass(frozen=True, slots=True)
class BatchProposal:
    """What a run would do; becomes a plan only after detection.

    Args:
        ranges: Non-empty ranges only, sorted by topic and partition.
        gone: What a backfill asks for and can no longer get.
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
    gone: tuple[Gone, ...] = ()


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
