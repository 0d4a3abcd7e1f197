"""Offset ranges, and the partitions and logs that they belong to.

Every range is half-open, `[start_offset, end_offset)`. Every stored position is the next offset to
read, as in Kafka's committed offsets (KafkaConsumer, "Offsets and Consumer Position").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple
from uuid import UUID

_LONGEST_ID = 64


@lru_cache(maxsize=4096)
def checked_topic_id(text: str) -> str:
    """A topic's UUID as it was given (KIP-516).

    Kafka's answer for "no id" is zero, and a client may turn it into a word. Neither names a log:
    two topics would share it, and a re-created topic would keep it.

    Raises:
        ValueError: It is no UUID, or zero.
    """
    shown = repr(text[:_LONGEST_ID])
    try:
        number = UUID(text).int
    except ValueError as error:
        raise ValueError(f"topic id {shown}: not a UUID") from error
    if number == 0:
        raise ValueError(f"topic id {shown}: zero means that the topic has none")
    return text


class TopicPartition(NamedTuple):
    """A topic's name and a partition number, as brokers know it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, order=True)
class PartitionIdentity:
    """The log that an offset belongs to.

    Args:
        topic_id: The topic's UUID; a topic that is deleted and re-created gets another (KIP-516).
        generation: Which filling of the partition, from 0, counted by Tideline.
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

    def holds(self, other: OffsetRange) -> bool:
        """Whether every offset of the other range is in this one."""
        return self.start_offset <= other.start_offset and other.end_offset <= self.end_offset

    def __str__(self) -> str:
        return f"[{self.start_offset}, {self.end_offset})"


@dataclass(frozen=True, slots=True)
class CoordinateRange:
    """Offsets `[start_offset, end_offset)` of one log: the coordinates of rows.

    Args:
        topic: Topic name.
        topic_id: The topic's UUID.
        generation: Which filling of the partition, from 0.
        partition: Partition number.
        start_offset: First offset, inclusive.
        end_offset: End, exclusive.

    Raises:
        ValueError: The topic id is no UUID, or zero.
    """

    topic: str
    topic_id: str
    generation: int
    partition: int
    start_offset: int
    end_offset: int

    def __post_init__(self) -> None:
        checked_topic_id(self.topic_id)

    @property
    def identity(self) -> PartitionIdentity:
        """The log that the range belongs to."""
        return PartitionIdentity(self.topic_id, self.generation, self.partition)

    @property
    def topic_partition(self) -> TopicPartition:
        """Topic name and partition number, as brokers know it."""
        return TopicPartition(self.topic, self.partition)

    @property
    def coordinates(self) -> tuple[str, int, int, int, int]:
        """Topic id, generation, partition, start and end offset: what the table stores of it."""
        return (
            self.topic_id,
            self.generation,
            self.partition,
            self.start_offset,
            self.end_offset,
        )

    @property
    def as_coordinates(self) -> CoordinateRange:
        """The range without what a subclass adds."""
        return CoordinateRange(self.topic, *self.coordinates)

    @property
    def offsets(self) -> OffsetRange:
        """The offsets, without topic and partition."""
        return OffsetRange(self.start_offset, self.end_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} {self.offsets}"
