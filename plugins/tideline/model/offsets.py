"""Offset ranges, the logs that they belong to, their arithmetic, and the generations of a log.

Every range is half-open, `[start_offset, end_offset)`. Every stored position is the next offset to
read, as in Kafka's committed offsets (KafkaConsumer, "Offsets and Consumer Position").

Intervals are normalized: sorted, disjoint and non-adjacent. The functions take any ranges, and
return intervals.

A generation begins at an offset. Below it the log is what it was, so that an older generation is
meant there: the one with the highest number among those that begin at or below an offset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple, Self
from uuid import UUID

_LONGEST_ID = 64
NO_END = 2**63 - 1
"""Above every offset of Kafka."""


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

    def at(self, offset: int) -> PlaceInLog:
        """An offset of the log."""
        return PlaceInLog(self.topic_id, self.generation, self.partition, offset)


@dataclass(frozen=True, slots=True)
class PlaceInLog:
    """An offset of one partition of a topic id, over all of its generations.

    Places of two partitions, or of two topic ids, have no order: neither offsets nor times say
    which record came first. So there is no `<`, and `is_before` refuses them.
    """

    topic_id: str
    generation: int
    partition: int
    offset: int

    @property
    def identity(self) -> PartitionIdentity:
        """The log that the offset belongs to."""
        return PartitionIdentity(self.topic_id, self.generation, self.partition)

    def shares_log(self, other: PlaceInLog) -> bool:
        """Whether both are of one partition of one topic id."""
        return (self.topic_id, self.partition) == (other.topic_id, other.partition)

    def is_before(self, other: PlaceInLog) -> bool:
        """Whether the place comes before another one.

        Raises:
            ValueError: They are of two partitions, or of two topic ids.
        """
        if not self.shares_log(other):
            raise ValueError(f"no order between {self} and {other}: they are in two logs")
        return (self.generation, self.offset) < (other.generation, other.offset)


def partition_counts(logs: Iterable[PartitionIdentity]) -> dict[str, int]:
    """How many partitions of each topic id these logs are of."""
    return Counter(topic_id for topic_id, _ in sorted({(i.topic_id, i.partition) for i in logs}))


@dataclass(frozen=True, slots=True)
class Incarnations:
    """Which topic ids a topic has had, in the order in which the live lane followed them.

    A topic id comes back where a cluster is swapped and swapped back. Its partitions have new
    generations by then, which tell the second stay from the first.

    Args:
        ids: Topic ids, oldest first; one that has come back stands there again.
        returns: The log of each partition with which a topic id has come back, for each time.
        topic: The topic's name; empty for those of a whole stream.
    """

    ids: tuple[str, ...] = ()
    returns: tuple[PartitionIdentity, ...] = ()
    topic: str = ""

    @property
    def conditions(self) -> tuple[tuple[str, int | None, int, int], ...]:
        """`of` as conditions on a row, the last one that holds counts.

        Each is a topic id, a partition (None for any), the lowest generation, and the number of the
        incarnation.
        """
        stays: dict[str, list[int]] = {}
        for n, topic_id in enumerate(self.ids):
            stays.setdefault(topic_id, []).append(n)
        began: dict[tuple[str, int], list[int]] = {}
        for log in self.returns:
            began.setdefault((log.topic_id, log.partition), []).append(log.generation)
        some = (
            (topic_id, partition, generation, _stay(stays[topic_id], firsts, generation))
            for (topic_id, partition), firsts in sorted(began.items())
            for generation in sorted({0, *firsts})
        )
        return (*((topic_id, None, 0, known[-1]) for topic_id, known in stays.items()), *some)

    def of(self, log: PartitionIdentity) -> int | None:
        """The number of the incarnation that a log belongs to, from 0; None for an unknown id."""
        stays = [n for n, topic_id in enumerate(self.ids) if topic_id == log.topic_id]
        if len(stays) < 2:
            return stays[0] if stays else None
        here = (log.topic_id, log.partition)
        began = [r.generation for r in self.returns if (r.topic_id, r.partition) == here]
        return _stay(stays, began, log.generation)

    def following(self, topic_id: str, logs: Iterable[PartitionIdentity]) -> Incarnations:
        """With a topic id that is followed from now on; its logs count where it has come back."""
        returns = tuple(sorted(logs)) if topic_id in self.ids else ()
        ids = (*self.ids, topic_id)
        return replace(self, ids=ids, returns=(*self.returns, *returns))


def _stay(stays: Sequence[int], began: Sequence[int], generation: int) -> int:
    """In which of a topic id's stays a generation of a partition was followed.

    Args:
        began: The partition's generations with which later stays began. A partition that was not
            there in an earlier stay has its first one later.
    """
    first = max(len(stays) - 1 - len(began), 0)
    return stays[first + sum(g <= generation for g in began)]


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

    def at(self, offsets: OffsetRange) -> Self:
        """The same with other offsets of the log."""
        return replace(self, start_offset=offsets.start_offset, end_offset=offsets.end_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} {self.offsets}"


@dataclass(frozen=True, slots=True)
class ReadRange(CoordinateRange):
    """Coordinates that are or were read from Kafka, with what proves that they are the same log.

    Args:
        leader_epoch: Epoch in the leader's answer about the end (KIP-101); None for an empty log.
    """

    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class PlannedRange(ReadRange):
    """One partition's share of a run, and what was observed there when it was planned.

    Args:
        log_start_offset: Oldest readable offset (inclusive).
        high_watermark: Last replicated offset + 1 (exclusive end).
        last_stable_offset: First offset of the oldest open transaction, otherwise the high
            watermark (exclusive end).
    """

    log_start_offset: int
    high_watermark: int
    last_stable_offset: int

    @property
    def as_read(self) -> ReadRange:
        """The coordinates and the epoch alone."""
        return ReadRange(self.topic, *self.coordinates, self.leader_epoch)


Intervals = tuple[OffsetRange, ...]
Piece = tuple[PartitionIdentity, OffsetRange]


def one_interval(start_offset: int, end_offset: int) -> Intervals:
    """The offsets `[start_offset, end_offset)` as intervals; empty if the end is not above."""
    return (OffsetRange(start_offset, end_offset),) if end_offset > start_offset else ()


def union(*groups: Iterable[OffsetRange]) -> Intervals:
    """Every offset that is in any of the groups."""
    items = [r for group in groups for r in group if len(r)]
    if len(items) < 2:  # the usual case, once a partition
        return tuple(items)
    merged: list[OffsetRange] = []
    for item in sorted(items):
        if merged and item.start_offset <= merged[-1].end_offset:
            last = merged[-1]
            merged[-1] = OffsetRange(last.start_offset, max(last.end_offset, item.end_offset))
        else:
            merged.append(item)
    return tuple(merged)


def subtract(whole: Iterable[OffsetRange], part: Iterable[OffsetRange]) -> Intervals:
    """Every offset of `whole` that is not in `part`."""
    holes = union(part)
    left: list[OffsetRange] = []
    index = 0
    for item in union(whole):
        start = item.start_offset
        while index < len(holes) and holes[index].start_offset < item.end_offset:
            hole = holes[index]
            if hole.start_offset > start:
                left.append(OffsetRange(start, hole.start_offset))
            start = max(start, hole.end_offset)
            if hole.end_offset > item.end_offset:
                break  # the same hole may reach into the next item
            index += 1
        if start < item.end_offset:
            left.append(OffsetRange(start, item.end_offset))
    return tuple(left)


def intersect(one: Iterable[OffsetRange], other: Iterable[OffsetRange]) -> Intervals:
    """Every offset that is in both."""
    left = union(one)
    return subtract(left, subtract(left, other))


def overlaps(ranges: Iterable[OffsetRange]) -> Intervals:
    """Every offset that is in more than one of the ranges."""
    repeated: list[OffsetRange] = []
    reach: int | None = None
    for item in sorted(r for r in ranges if len(r)):
        if reach is not None and item.start_offset < reach:
            repeated.append(OffsetRange(item.start_offset, min(reach, item.end_offset)))
        reach = item.end_offset if reach is None else max(reach, item.end_offset)
    return union(repeated)


def total(ranges: Iterable[OffsetRange]) -> int:
    """How many distinct offsets the ranges hold."""
    return sum(len(r) for r in union(ranges))


def covered_until(coverage: Iterable[OffsetRange], next_offset: int) -> int:
    """The first offset at or after `next_offset` that is not covered (R12).

    Args:
        coverage: Verified ranges of one partition.
    """
    for item in union(coverage):
        if item.start_offset <= next_offset < item.end_offset:
            return item.end_offset
    return next_offset


def uncovered_from(coverage: Iterable[OffsetRange], start: int, end: int) -> int:
    """The end (exclusive) of the uncovered range that begins at `start`.

    Args:
        coverage: Verified ranges of one partition; none of them holds `start`.
        start: First offset (inclusive).
        end: Answer if nothing from `start` on is covered (exclusive); no upper bound otherwise.
    """
    return min((r.start_offset for r in union(coverage) if start < r.start_offset), default=end)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first offset of a generation.

    Args:
        identity: The generation of one partition; generation 0 begins at 0 and has no entry.
        offset: Its first offset (inclusive): where the log was cut, or the log start where all of
            it is read again.
    """

    identity: PartitionIdentity
    offset: int


@dataclass(frozen=True, slots=True)
class Generations:
    """The generations that a head knows.

    Args:
        begun: First offsets. A generation without an entry begins at 0: a ledger of an earlier
            version does not know where it did, and all offsets count as its own.
    """

    begun: Mapping[PartitionIdentity, int]

    def pieces(self, newest: PartitionIdentity) -> tuple[Piece, ...]:
        """The parts of a log, lowest first; each generation has at most one, and none is empty.

        Args:
            newest: Topic id, partition, and the generation of what is written now.
        """
        found: list[Piece] = []
        end = NO_END
        # from the newest down: each begins below all that are above it, or is cut away whole
        for generation in range(newest.generation, -1, -1):
            identity = replace(newest, generation=generation)
            start = self.begun.get(identity, 0)
            if start < end:
                found.append((identity, OffsetRange(start, end)))
                end = start
        return tuple(reversed(found))

    def split(self, newest: PartitionIdentity, offsets: Iterable[OffsetRange]) -> list[Piece]:
        """Offsets of a log by the generation that they belong to, lowest first."""
        wanted = union(offsets)
        if not newest.generation:  # no generation has begun
            return [(newest, r) for r in wanted]
        return [
            (identity, r)
            for identity, piece in self.pieces(newest)
            for r in intersect(wanted, [piece])
        ]

    def joined(
        self, logs: Iterable[PartitionIdentity], known: Mapping[PartitionIdentity, Intervals]
    ) -> dict[PartitionIdentity, Intervals]:
        """The offsets of `known` that are still in today's logs, whatever their generation.

        Args:
            logs: By topic id, partition and newest generation.
            known: Offsets by generation.
        """
        found = {}
        for newest in logs:
            offsets = known.get(newest, ())
            if newest.generation:
                parts = self.pieces(newest)
                offsets = union(*(intersect(known.get(i, ()), [piece]) for i, piece in parts))
            if offsets:
                found[newest] = offsets
        return found
