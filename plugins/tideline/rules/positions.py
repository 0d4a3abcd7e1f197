"""Which partitions the head has a position for: new ones (R10), and topics set aside (R14).

The stream file's `start` counts once, at the stream's first observation. Topics that appear later
begin at their log start, and new partitions of known topics at 0, so that nothing is skipped.

Which topics the file still means is told by their names alone, and no broker is asked. A topic that
the file means and the brokers do not list is missed. One that the file does not mean any more is
set aside: its positions stay, and nothing is asked, found or landed there until the file means it
again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tideline.errors import BadInput
from tideline.model.head import Head, PartitionPosition, by_topic
from tideline.model.incident import Incident, Notice
from tideline.model.observation import Observation, PartitionObservation, TopicObservation
from tideline.model.offsets import TopicPartition
from tideline.model.wording import first_few
from tideline.stream.landing import Kafka

LookedUp = Mapping[TopicPartition, int | None]
"""Next offsets by partition; None if there is none."""


def adopt_new_partitions(
    head: Head,
    observation: Observation,
    *,
    start: str,
    isolation_level: str,
    looked_up: LookedUp | None = None,
) -> Head:
    """The head with a position for every observed partition.

    Known positions stay as they are. Another cluster, another topic id and a partition that did not
    answer are left to detection. The first positions of a stream are resolved together: none is
    adopted until every topic and partition has answered.

    Args:
        head: Its `start` is None before the stream's first observation.
        start: `earliest`, `latest`, or for messages a description of the explicit start.
        isolation_level: Decides which end `latest` means.
        looked_up: Next offsets, for a start by timestamp, offsets or group; None for `earliest`
            and `latest`. A partition without an offset starts at its end if no record reaches
            the timestamp, or if its log is empty; otherwise it is an error.

    Raises:
        BadInput: Explicit offsets or a group lack a partition whose log is not empty, or an
            explicit offset lies past the high watermark.
    """
    if head.cluster_id not in (None, observation.cluster_id):
        return head
    is_first = head.start is None
    # `start` counts once: a partition that answers later would begin at its log start
    if is_first and not all(t.answered for t in observation.topics):
        return head
    known = head.topics
    added: list[PartitionPosition] = []
    for topic in observation.topics:
        if topic.topic_id is None or topic.fault or topic.refusal:
            continue
        positions = known.get(topic.topic, [])
        if any(p.topic_id != topic.topic_id for p in positions):
            continue
        # a retired partition is not adopted again: somebody has given it up
        retired = {p.partition for p in head.retired if p.topic_id == topic.topic_id}
        numbers = {p.partition for p in positions} | retired
        for seen in topic.partitions:
            if seen.partition in numbers or not seen.answered:
                continue
            if positions:
                next_offset = 0  # a new partition of a known topic: a higher log start is a loss
            elif is_first:
                next_offset = _start_offset(topic, seen, start, isolation_level, looked_up)
            else:
                next_offset = log_start_of(seen)
            added.append(
                PartitionPosition(
                    topic.topic,
                    topic.topic_id,
                    0,
                    seen.partition,
                    next_offset,
                    seen.leader_epoch,
                    seen.high_watermark,
                )
            )
    return replace(
        head,
        cluster_id=head.cluster_id or observation.cluster_id,
        start=head.start or start,
        positions=tuple(
            sorted((*head.positions, *added), key=lambda p: (p.topic_partition, p.topic_id))
        ),
    )


def _start_offset(
    topic: TopicObservation,
    seen: PartitionObservation,
    start: str,
    isolation_level: str,
    looked_up: LookedUp | None,
) -> int:
    where = TopicPartition(topic.topic, seen.partition)
    end = seen.end_offset(isolation_level)
    assert end is not None
    if looked_up is None:
        return log_start_of(seen) if start == "earliest" else end
    offset = looked_up.get(where)
    if offset is None:
        if start.startswith("timestamp"):
            return end
        if log_start_of(seen) == end:
            return end
        raise BadInput(
            f"start: {start} gives no offset for {where}, whose log is"
            f" [{log_start_of(seen)}, {end}); name an offset for it, or use earliest or latest",
            partition=str(where),
        )
    log_end = seen.high_watermark
    assert log_end is not None
    # only explicit offsets: a time or a group is looked up later, when the log may have grown
    if start.startswith("offsets") and offset > log_end:
        raise BadInput(
            f"start: {start} puts {where} at {offset}, past its end {log_end}; allowed are"
            f" offsets up to {log_end}",
            partition=str(where),
            offset=offset,
            end_offset=log_end,
        )
    return offset


def log_start_of(seen: PartitionObservation) -> int:
    """The log start of a partition that has answered."""
    assert seen.log_start_offset is not None
    return seen.log_start_offset


def is_followed(topic: str, kafka: Kafka) -> bool:
    """Whether a stream file means a topic, for whoever has a stream's section only."""
    return kafka.means(topic)


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
            f" ({_places(positions[topic])}): landing continues there when it is added again",
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
