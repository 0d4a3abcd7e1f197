"""Notices about new topics and partitions and about open transactions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from tideline.model.head import Head
from tideline.model.notice import Notice
from tideline.model.observation import Observation
from tideline.model.offsets import TopicPartition

HANGING_AFTER = timedelta(minutes=15)
"""Brokers abort a transaction after `transaction.max.timeout.ms`, by default 15 minutes (broker
configuration). An older one hangs: its coordinator has lost it (KIP-664)."""


def new_places(before: Head, after: Head) -> tuple[Notice, ...]:
    """Notices about topics and partitions that the new head follows and the old one did not.

    Args:
        before: The old head. A stream's first head gives no notices: all of it is new.
        after: The new head.
    """
    if before.start is None:
        return ()
    known = {(p.topic, p.topic_id, p.partition) for p in before.positions}
    topics = {p.topic for p in before.positions}
    notices = []
    for position in after.positions:
        if (position.topic, position.topic_id, position.partition) in known:
            continue
        is_new_topic = position.topic not in topics
        notices.append(
            Notice(
                "new_topic" if is_new_topic else "new_partition",
                position.topic,
                position.partition,
                f"followed from offset {position.next_offset} on",
            )
        )
    return tuple(notices)


def stalled_places(observation: Observation) -> dict[TopicPartition, int]:
    """The last stable offset of every partition where an open transaction holds it back."""
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
    """Notices about transactions that read_committed readers wait for.

    Args:
        observation: One observation of the cluster.
        began: When the first record of each open transaction was written, UTC-aware; None if
            unknown.
        now: The time, UTC-aware.
    """
    notices = []
    for partition, offset in stalled_places(observation).items():
        seen = observation.partition(partition)
        assert seen is not None
        assert seen.high_watermark is not None
        since = began.get(partition)
        hanging = since is not None and now - since > HANGING_AFTER
        opened = "at an unknown time" if since is None else f"at {since.isoformat()}"
        notices.append(
            Notice(
                "hanging_transaction" if hanging else "open_transaction",
                partition.topic,
                partition.partition,
                f"a transaction that began {opened} holds the last stable offset at {offset};"
                f" {seen.high_watermark - offset} offsets wait behind it"
                + ("; find its producer, or use kafka-transactions.sh" if hanging else ""),
            )
        )
    return tuple(notices)
