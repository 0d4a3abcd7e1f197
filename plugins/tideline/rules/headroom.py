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
    """The next offsets of partitions with unread records, the largest lag first.

    Partitions that did not answer, have another topic id, or have lost their next offset to
    retention are left out.

    Args:
        positions: The live lane's positions.
        observation: One observation of the cluster.
        most: Maximum number of partitions; None for all.
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
    return {partition: offset for _, partition, offset in behind[:most]}


def headroom_of(
    unread: Mapping[TopicPartition, int],
    written: Mapping[TopicPartition, datetime | None],
    retention_ms: Mapping[str, int | None],
) -> tuple[Headroom, ...]:
    """The headroom of partitions, the smallest first, unknown ones last.

    Args:
        unread: Next offset of each partition with unread records.
        written: When the record there was written, UTC-aware; None if unknown.
        retention_ms: `retention.ms` by topic name, in milliseconds; None if time deletes nothing.
    """
    headroom = [
        Headroom(*partition, offset, written.get(partition), retention_ms.get(partition.topic))
        for partition, offset in unread.items()
    ]
    return tuple(sorted(headroom, key=_soonest))


def _soonest(headroom: Headroom) -> float:
    expires_at = headroom.expires_at
    return float("inf") if expires_at is None else expires_at.timestamp()


def scarce(
    headroom: Iterable[Headroom], within_seconds: float, now: datetime
) -> tuple[Headroom, ...]:
    """The partitions that retention reaches soon.

    Args:
        headroom: The headroom of all partitions.
        within_seconds: How soon, in seconds from now (exclusive).
        now: The time, UTC-aware.
    """
    return tuple(
        h for h in headroom if (left := h.seconds_left(now)) is not None and left < within_seconds
    )
