"""The head: where the live lane goes on, per partition."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tideline.model.coverage import Coverage
from tideline.model.headroom import Headroom
from tideline.model.offsets import PartitionIdentity, TopicPartition


@dataclass(frozen=True, slots=True)
class PartitionPosition:
    """The live lane's position in one partition.

    Args:
        topic: Topic name, as it was asked for.
        topic_id: The incarnation that `next_offset` belongs to.
        generation: Which filling of the partition, from 0.
        partition: Partition number.
        next_offset: First offset not yet ingested.
        leader_epoch: Epoch observed when `next_offset` was planned; None for an empty log.
        seen_end: High watermark (exclusive) that came with that epoch: the log reached so far.
    """

    topic: str
    topic_id: str
    generation: int
    partition: int
    next_offset: int
    leader_epoch: int | None = None
    seen_end: int | None = None

    @property
    def proven_end(self) -> int:
        """Where the known epoch has to reach: everything below was there once, read or not."""
        return max(self.next_offset, self.seen_end or 0)

    @property
    def identity(self) -> PartitionIdentity:
        """The log that the position belongs to."""
        return PartitionIdentity(self.topic_id, self.generation, self.partition)

    @property
    def topic_partition(self) -> TopicPartition:
        """What brokers are asked about."""
        return TopicPartition(self.topic, self.partition)

    def __str__(self) -> str:
        return str(self.topic_partition)


@dataclass(frozen=True, slots=True)
class Head:
    """Everything that a live plan starts from; replaced as a whole, never edited.

    Args:
        cluster_id: The cluster that the positions belong to; None before the first look.
        start: The stream file's `start` as it was when the first positions were resolved.
        positions: One per followed partition.
        coverage: Verified offsets, live and backfill.
        table_id: The table that holds the rows; None before the first commit.
        table_version: Newest version known to hold only what the ledger knows.
        live_runs: How many live runs have advanced.
        bytes_per_record: Table bytes per landed row of the last run; None before the first.
        accepted_loss: Offsets without a row whose loss was accepted by a decision.
        retired: Positions of topics and partitions that are no longer followed.
        headroom: Where retention is nearest, as last measured; of at most 200 partitions.
    """

    cluster_id: str | None = None
    start: str | None = None
    positions: tuple[PartitionPosition, ...] = ()
    coverage: tuple[Coverage, ...] = ()
    table_id: str | None = None
    table_version: int | None = None
    live_runs: int = 0
    bytes_per_record: float | None = None
    accepted_loss: tuple[Coverage, ...] = ()
    retired: tuple[PartitionPosition, ...] = ()
    headroom: tuple[Headroom, ...] = ()

    @property
    def digest(self) -> str:
        """A fingerprint of what decisions and runs move: a proposal made from others is stale."""
        moving = (self.cluster_id, self.positions, self.retired, self.accepted_loss)
        return hashlib.sha256(repr(moving).encode()).hexdigest()

    @property
    def topics(self) -> dict[str, list[PartitionPosition]]:
        """Positions by topic name, partitions in order."""
        grouped: dict[str, list[PartitionPosition]] = {}
        for position in sorted(self.positions, key=lambda p: p.topic_partition):
            grouped.setdefault(position.topic, []).append(position)
        return grouped
