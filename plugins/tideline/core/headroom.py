"""How long until retention reaches the next offset to read. Pure.

Retention deletes a segment when its newest record is older than `retention.ms` (Kafka's topic
configuration), so the oldest unread record's own age gives a lower bound of the time left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tideline.core.observation import Observation
from tideline.core.offsets import Place
from tideline.core.positions import PartitionPosition


@dataclass(frozen=True, slots=True)
class Headroom:
    """When retention may reach one partition's next offset.

    Args:
        next_offset: The oldest unread offset.
        written_at: When the batch there began to be written; None if unknown.
        retention_ms: The topic's `retention.ms`; None where time deletes nothing.
    """

    topic: str
    partition: int
    next_offset: int
    written_at: datetime | None
    retention_ms: int | None

    @property
    def expires_at(self) -> datetime | None:
        """The earliest time at which the record may be deleted; None if unknown or never."""
        if self.written_at is None or self.retention_ms is None:
            return None
        try:
            return self.written_at + timedelta(milliseconds=self.retention_ms)
        except OverflowError:  # kept for longer than there are dates
            return None

    def seconds_left(self, now: datetime) -> float | None:
        """Seconds until then, negative when overdue; None if unknown or never."""
        return None if self.expires_at is None else (self.expires_at - now).total_seconds()


def unread_places(
    positions: Iterable[PartitionPosition], observation: Observation, most: int | None = None
) -> dict[Place, int]:
    """Next offsets of partitions that have something unread, the furthest behind first.

    Args:
        positions: Where the live lane stands.
        observation: One look at the cluster.
        most: At most that many partitions; None for all.
    """
    behind = []
    for position in positions:
        topic = observation.topic(position.topic)
        if topic is None or topic.topic_id != position.topic_id:
            continue
        seen = topic.partition(position.partition)
        if seen is None or seen.high_watermark is None or seen.log_start_offset is None:
            continue
        if seen.log_start_offset <= position.next_offset < seen.high_watermark:
            lag = seen.high_watermark - position.next_offset
            behind.append((lag, (position.topic, position.partition), position.next_offset))
    behind.sort(key=lambda item: -item[0])
    return {place: offset for _, place, offset in behind[:most]}


def headroom_of(
    unread: Mapping[Place, int],
    written: Mapping[Place, datetime | None],
    retention_ms: Mapping[str, int | None],
) -> tuple[Headroom, ...]:
    """Headroom per partition with something unread, the least first; unknown ones last."""
    found = [
        Headroom(topic, partition, offset, written.get((topic, partition)), retention_ms.get(topic))
        for (topic, partition), offset in unread.items()
    ]
    return tuple(sorted(found, key=_soonest))


def _soonest(headroom: Headroom) -> float:
    expires_at = headroom.expires_at
    return float("inf") if expires_at is None else expires_at.timestamp()


def scarce(
    headroom: Iterable[Headroom], within_seconds: float, now: datetime
) -> tuple[Headroom, ...]:
    """Those that retention reaches within a time."""
    return tuple(
        h for h in headroom if (left := h.seconds_left(now)) is not None and left < within_seconds
    )
