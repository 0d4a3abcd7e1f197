"""Where a topic partition starts that the head does not know yet (R10). Pure.

The stream file's `start` decides once, at the stream's first look. Topics and partitions that
appear later start at their log start, so that nothing is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tideline.errors import BadInput
from tideline.model.head import Head, PartitionPosition
from tideline.model.observation import Observation, PartitionObservation, TopicObservation
from tideline.model.offsets import TopicPartition

Places = Mapping[TopicPartition, int | None]
"""Offsets by (topic, partition); None where there is none."""


def adopt_new_partitions(
    head: Head,
    observation: Observation,
    *,
    start: str,
    isolation_level: str,
    looked_up: Places | None = None,
) -> Head:
    """The head with a position for every observed partition.

    Known positions stay as they are. Another cluster, a topic whose id differs from the known
    one, and a partition that did not answer are left to detection. The first positions of a
    stream are resolved together: nothing is adopted until every topic and partition answers.

    Args:
        head: The head so far; `head.start is None` means that this is the stream's first look.
        observation: One look at the cluster.
        start: `earliest`, `latest`, or a description of explicit places for messages.
        isolation_level: Decides which end `latest` means.
        looked_up: For a start by timestamp, explicit offsets or group: the offset per
            partition. None for a timestamp that no record reaches means the end; None for
            explicit offsets or a group is refused unless the partition is empty.

    Raises:
        BadInput: An explicit start misses a partition, or lies past its end.
    """
    if head.cluster_id not in (None, observation.cluster_id):
        return head
    first_look = head.start is None
    if first_look and not all(t.answered for t in observation.topics):
        return head
    known = head.topics
    added: list[PartitionPosition] = []
    for topic in observation.topics:
        if topic.topic_id is None or topic.fault or topic.refusal:
            continue
        positions = known.get(topic.topic, [])
        if any(p.topic_id != topic.topic_id for p in positions):
            continue
        retired = {p.partition for p in head.retired if p.topic_id == topic.topic_id}
        numbers = {p.partition for p in positions} | retired
        for seen in topic.partitions:
            if seen.partition in numbers or not seen.answered:
                continue
            if positions:
                next_offset = 0  # a new partition of a known topic begins at 0, or it lost records
            elif first_look:
                next_offset = _start_offset(topic, seen, start, isolation_level, looked_up)
            else:
                next_offset = _log_start(seen)
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
            sorted((*head.positions, *added), key=lambda p: (p.topic, p.partition, p.topic_id))
        ),
    )


def _start_offset(
    topic: TopicObservation,
    seen: PartitionObservation,
    start: str,
    isolation_level: str,
    looked_up: Places | None,
) -> int:
    where = f"{topic.topic}-{seen.partition}"
    end = seen.end_offset(isolation_level)
    assert end is not None
    if looked_up is None:
        return _log_start(seen) if start == "earliest" else end
    offset = looked_up.get(TopicPartition(topic.topic, seen.partition))
    if offset is None:
        if start.startswith("timestamp"):
            return end
        if _log_start(seen) == end:
            return end
        raise BadInput(
            f"start: {start} gives no offset for {where}, which holds [{_log_start(seen)}, {end});"
            f" name an offset for it, or use earliest or latest",
            partition=where,
        )
    log_end = seen.high_watermark
    assert log_end is not None
    # A time or a group was looked up after the end was taken: the log may have grown since.
    if start.startswith("offsets") and offset > log_end:
        raise BadInput(
            f"start: {start} puts {where} at {offset}, past its end {log_end}; allowed are"
            f" offsets up to {log_end}",
            partition=where,
            offset=offset,
            end_offset=log_end,
        )
    return offset


def _log_start(seen: PartitionObservation) -> int:
    assert seen.log_start_offset is not None
    return seen.log_start_offset
