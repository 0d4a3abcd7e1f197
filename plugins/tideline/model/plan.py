"""The input of one run, before and after it is frozen, and what the table holds of it.

BatchProposal -> freeze -> BatchPlan -> WrittenRows -> VerifiedRange | Mismatch
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tideline.model.observation import REASONS, Gap, Observation
from tideline.model.offsets import (
    Intervals,
    OffsetRange,
    PartitionIdentity,
    PlannedRange,
    ReadRange,
)
from tideline.model.places import Places
from tideline.model.request import Lane, RunRequest
from tideline.model.wording import first_few, how_many

RunStatus = Literal["proposed", "planned", "done", "nothing_to_do", "superseded"]


@dataclass(frozen=True, slots=True)
class ClusterRanges:
    """Ranges that one cluster is asked about: can they still be read, were they read as planned?

    Args:
        ranges: All ranges of one partition have the same leader epoch.
    """

    cluster_id: str
    ranges: tuple[ReadRange, ...]


@dataclass(frozen=True, slots=True)
class Gone:
    """Offsets that a backfill requests, but Kafka has deleted and the table does not hold.

    Args:
        topic: Topic name.
        partition: Partition number.
        intervals: The offsets, as half-open ranges.
        uncertain: The window's first offset is no longer known, so the loss may be smaller.
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
    """What a run would read. It becomes a plan after reset detection.

    Args:
        observation: What the proposal was made from.
        ranges: Non-empty ranges, sorted by topic, partition and start. Those of one partition are
            adjacent, and each has a generation of its own.
        offset_lag: Number of offsets that the limits leave for later runs.
        isolation_level: `read_committed` or `read_uncommitted`.
        estimated_records: Number of offsets in the ranges: an upper bound of the records.
        head_digest: Fingerprint of the head that the proposal was made from.
        estimated_bytes: Size in the table, estimated from the last run; None before the first.
        gone: Offsets that a backfill requests and Kafka no longer has.
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
    """The frozen input of one run (R1). Every retry, clear and recovery executes exactly this.

    Args:
        plan_id: Derived from ledger, stream and the run id that froze it.
        run_id: The run that froze it.
        lane: `live` or `backfill`.
        frozen_at: When, UTC-aware.
        request_digest: Fingerprint of the run's request.
        cluster_id: The cluster that the ranges belong to.
        ranges: What to read, as in the proposal; ends are exclusive.
        offset_lag: Number of offsets that the limits leave for later runs.
        table_id: Delta's id of the target table; None if the first attempt has to create it.
        table_version: Newest version when the plan was frozen; its commits have higher ones. None
            if there was no table.
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

    @property
    def on_cluster(self) -> ClusterRanges:
        """What the plan's cluster is asked about."""
        return ClusterRanges(self.cluster_id, self.ranges)


def freeze(
    proposal: BatchProposal,
    *,
    stream: str,
    ledger_id: str,
    run_id: str,
    request: RunRequest,
    table_uri: str,
    now: datetime,
    replaces: str | None = None,
) -> BatchPlan:
    """The plan that a proposal becomes after reset detection.

    Args:
        now: The time, UTC-aware.
        replaces: The run's earlier plan, which must keep its id for itself; None if there is none.
    """
    # of the run and not of the ranges: whoever freezes it, it is the run's one plan (R1)
    name = json.dumps([ledger_id, stream, run_id, *([] if replaces is None else [replaces])])
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


@dataclass(frozen=True, slots=True)
class LandedRange:
    """The rows of one partition inside a planned range.

    Args:
        rows: Number of rows, duplicates included.
        offsets: The distinct offsets of these rows, as normalized half-open ranges.
    """

    identity: PartitionIdentity
    rows: int
    offsets: Intervals

    @property
    def distinct(self) -> int:
        """Number of offsets that have a row."""
        return sum(len(r) for r in self.offsets)

    @property
    def duplicates(self) -> int:
        """Number of rows beyond one per offset."""
        return self.rows - self.distinct


def places_of(landed: Mapping[PartitionIdentity, LandedRange]) -> Places:
    """Where rows stand."""
    return Places({log: held.offsets for log, held in landed.items()})


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """What an attempt has written and not committed yet.

    Args:
        files: Its data files: paths relative to the table, with `/`, not URL-encoded.
        landed: What they hold, by partition.
    """

    files: tuple[str, ...]
    landed: Mapping[PartitionIdentity, LandedRange]


@dataclass(frozen=True, slots=True)
class VerifiedRange:
    """A planned range that the table holds.

    Args:
        planned: The range.
        rows: Number of its rows.
        gaps: Offsets without a row, each with the reason that explains it.
    """

    planned: PlannedRange
    rows: int
    gaps: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A planned range that the table does not hold as planned.

    Args:
        rows: Number of its rows, duplicates included.
        gaps: Offsets without a row that no admitted reason explains.
        duplicates: Number of rows beyond one per offset.
        reasons: Offsets without a row that an admitted reason explains.
    """

    planned: PlannedRange
    rows: int
    gaps: tuple[Gap, ...]
    duplicates: int
    reasons: tuple[Gap, ...] = ()

    def __str__(self) -> str:
        planned = how_many(len(self.planned.offsets), "offset")
        parts = [f"{self.planned}: {planned} planned, {how_many(self.rows, 'row')}"]
        if self.gaps:
            gaps = first_few(f"{g.offsets} ({REASONS[g.reason]})" for g in self.gaps)
            parts.append(f"no row for {gaps}")
        if self.duplicates:
            parts.append(f"{how_many(self.duplicates, 'row')} too many")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Stored:
    """The rows of one partition in one data file.

    Args:
        rows: Number of rows, duplicates included.
        offsets: The distinct offsets of these rows, as normalized half-open ranges.
        copies: Ranges of offsets with more than one row, each with its number of surplus rows.
    """

    identity: PartitionIdentity
    rows: int
    offsets: Intervals
    copies: tuple[tuple[OffsetRange, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A data file of the table that is gone or cannot be read; its rows count as missing."""

    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.path} ({self.why})"
