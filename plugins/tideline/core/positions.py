"""The live lane's position in one partition."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.core.offsets import PartitionIdentity


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

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
