"""What a run tells without halting: new topics and partitions, open transactions."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tideline.model.head import Head
from tideline.model.notice import Notice
from tideline.model.observation import Observation
from tideline.model.offsets import TopicPartition

HANGING_AFTER = timedelta(minutes=15)
"""Brokers abort a transaction after `transaction.max.timeout.ms`, 15 minutes by default."""


def new_places(before: Head, after: Head) -> tuple[Notice, ...]:
    """Topics and partitions that the head did not follow yet; none at a stream's first look."""
    if before.start is None:
        return ()
    known = {(p.topic, p.topic_id, p.partition) for p in before.positions}
    topics = {p.topic for p in before.positions}
    found = []
    for position in after.positions:
        if (position.topic, position.topic_id, position.partition) in known:
            continue
        is_new_topic = position.topic not in topics
        found.append(
            Notice(
                "new_topic" if is_new_topic else "new_partition",
                position.topic,
                position.partition,
                f"followed from offset {position.next_offset} on",
            )
        )
    return tuple(found)


def stalled_places(observation: Observation) -> dict[TopicPartition, int]:
    """Where an open transaction holds the last stable offset back, and at which offset."""
    return {
        TopicPartition(topic.topic, seen.partition): seen.last_stable_offset
        for topic in observation.topics
        for seen in topic.partitions
        if seen.answered
        and seen.last_stable_offset is not None
        and seen.high_watermark is not None
        and seen.last_stable_offset < seen.high_watermark
    }


def open_transactions(
    observation: Observation, began: Mapping[TopicPartition, datetime | None], now: datetime
) -> tuple[Notice, ...]:
    """Transactions that readers of committed records wait for.

    Args:
        observation: One look.
        began: When the first record of each open transaction was written; None if unknown.
        now: The time.
    """
    found = []
    for place, offset in stalled_places(observation).items():
        seen_topic = observation.topic(place.topic)
        seen = seen_topic.partition(place.partition) if seen_topic is not None else None
        assert seen is not None
        assert seen.high_watermark is not None
        since = began.get(place)
        hanging = since is not None and now - since > HANGING_AFTER
        found.append(
            Notice(
                "hanging_transaction" if hanging else "open_transaction",
                place.topic,
                place.partition,
                f"a transaction open since {'unknown' if since is None else since.isoformat()}"
                f" holds the last stable offset at {offset};"
                f" {seen.high_watermark - offset} offsets wait behind it"
                + ("; find its producer, or use kafka-transactions.sh" if hanging else ""),
            )
        )
    return tuple(found)
