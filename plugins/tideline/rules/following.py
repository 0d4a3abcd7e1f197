"""Which of the head's topics the stream file still means, by their names alone. Pure.

No broker is asked. A topic that the file means and the brokers do not list is missed (R14). One
that the file does not mean any more is set aside: its positions stay, and nothing is asked, found
or landed there until the file means it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from tideline.model.head import Head, PartitionPosition, by_topic
from tideline.model.incident import Incident
from tideline.model.notice import Notice
from tideline.model.stream_landing import Kafka
from tideline.model.wording import first_few


def is_followed(topic: str, kafka: Kafka) -> bool:
    """Whether a stream file names a topic, or its pattern matches the topic's whole name."""
    if kafka.topic_pattern is not None:
        return re.fullmatch(kafka.topic_pattern, topic) is not None
    return topic in kafka.topics


def only_followed(head: Head, kafka: Kafka) -> Head:
    """The head with the positions that a stream file means: for looking, never for storing."""
    followed = {topic for topic in head.topics if is_followed(topic, kafka)}
    kept = tuple(p for p in head.positions if p.topic in followed)
    return head if len(kept) == len(head.positions) else replace(head, positions=kept)


def mark_followed(head: Head, kafka: Kafka) -> Head:
    """The head with the topics noted that a stream file does not mean any more."""
    aside = tuple(sorted(topic for topic in head.topics if not is_followed(topic, kafka)))
    return head if aside == head.set_aside else replace(head, set_aside=aside)


def mark_named(head: Head, kafka: Kafka) -> Head:
    """`mark_followed` where the stream file names its topics; it never tries a pattern.

    That is for whoever must not wait: a pattern may take longer for one name than anybody lives.
    """
    return mark_followed(head, kafka) if kafka.topics else head


def is_set_aside(incident: Incident, kafka: Kafka) -> bool:
    """Whether an incident is about a topic that a stream file does not mean any more."""
    topic = incident.finding.topic
    return topic is not None and not is_followed(topic, kafka)


def followed_otherwise(before: Head, after: Head, kafka: Kafka) -> tuple[Notice, ...]:
    """Notices about topics that were set aside or taken up again; each change is told once."""
    positions = by_topic(after.positions)
    key = "topics does not name it" if kafka.topics else "topic_pattern does not match it"
    aside = (
        Notice(
            "topic_set_aside",
            topic,
            None,
            f"no longer followed: kafka.{key}; its rows stay, and so do its next offsets"
            f" ({_places(positions[topic])}): landing goes on there when it is put back",
        )
        for topic in after.set_aside
        if topic not in before.set_aside
    )
    again = (
        Notice(
            "topic_taken_up",
            topic,
            None,
            f"followed again, from its next offsets on ({_places(positions[topic])})",
        )
        for topic in before.set_aside
        if topic not in after.set_aside and topic in positions
    )
    return (*aside, *again)


def _places(positions: Iterable[PartitionPosition]) -> str:
    return first_few(f"{p.partition}: {p.next_offset}" for p in positions)
