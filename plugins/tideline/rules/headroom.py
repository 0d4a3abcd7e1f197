"""How long until retention reaches the next offset to read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from tideline.model.head import PartitionPosition
from tideline.model.headroom import Headroom
from tideline.model.observation import Observation
from tideline.model.offsets import TopicPartition


def unread_places(
    positions: Iterable[PartitionPosition], observation: Observation, most: int | None = None
) -> dict[TopicPartition, int]:
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
            behind.append((lag, position.topic_partition, position.next_offset))
    behind.sort(key=lambda item: -item[0])
    return {place: offset for _, place, offset in behind[:most]}


def headroom_of(
    unread: Mapping[TopicPartition, int],
    written: Mapping[TopicPartition, datetime | None],
    retention_ms: Mapping[str, int | None],
) -> tuple[Headroom, ...]:
    """Headroom per partition with something unread, the least first; unknown ones last."""
    found = [
        Headroom(*place, offset, written.get(place), retention_ms.get(place.topic))
        for place, offset in unread.items()
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
