"""Half-open offset ranges and what makes an offset mean something.

Every range is `[start_offset, end_offset)` and every stored position is the next offset to
read, as in Kafka's own committed offsets (KafkaConsumer, "Offsets and Consumer Position").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """A topic's name and a partition number: what brokers are asked about."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class PartitionIdentity:
    """The log that an offset belongs to.

    Args:
        topic_id: The topic's UUID, which changes when a topic is deleted and re-created (KIP-516).
        generation: Which filling of that partition, from 0, counted by Tideline.
        partition: Partition number.
    """

    topic_id: str
    generation: int
    partition: int


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """A range of offsets, `start_offset` inclusive, `end_offset` exclusive.

    Raises:
        ValueError: A negative start, or an end below the start.
    """

    start_offset: int
    end_offset: int

    def __post_init__(self) -> None:
        if self.start_offset < 0 or self.end_offset < self.start_offset:
            raise ValueError(f"not an offset range: [{self.start_offset}, {self.end_offset})")

    def __len__(self) -> int:
        return self.end_offset - self.start_offset

    def __str__(self) -> str:
        return f"[{self.start_offset}, {self.end_offset})"


@dataclass(frozen=True, slots=True)
class CoordinateRange:
    """Offsets `[start_offset, end_offset)` of one partition of one incarnation of a topic.

    Args:
        topic: Topic name, as it was asked for.
        topic_id: The topic's UUID.
        generation: Which filling of the partition, from 0.
        partition: Partition number.
        start_offset: First offset, inclusive.
        end_offset: End, exclusive.
    """

    topic: str
    topic_id: str
    generation: int
    partition: int
    start_offset: int
    end_offset: int

    @property
    def identity(self) -> PartitionIdentity:
        """The log that the range belongs to."""
        return PartitionIdentity(self.topic_id, self.generation, self.partition)

    @property
    def topic_partition(self) -> TopicPartition:
        """What brokers are asked about."""
        return TopicPartition(self.topic, self.partition)

    @property
    def offsets(self) -> OffsetRange:
        """The offsets alone."""
        return OffsetRange(self.start_offset, self.end_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} {self.offsets}"
