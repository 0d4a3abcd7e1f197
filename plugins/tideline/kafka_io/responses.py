"""From brokers' answers to observations: which error is transient. Needs no client."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from uuid import UUID

from tideline.errors import TopicIdMissing
from tideline.model.observation import PartitionObservation, TopicObservation
from tideline.model.offsets import TopicPartition

ErrorName = Callable[[int], str]

_MISSING = (3, 100)  # UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID
_TRANSIENT_CODES = frozenset({3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 56, 72, 74, 75, 78, 100, 103})
"""Kafka error codes that a later observation may not meet (protocol guide, "Error Codes")."""


def partitions_by_leader(metadata: Mapping[str, Any]) -> dict[int, list[TopicPartition]]:
    """The partitions that each broker leads; those without a leader are left out."""
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic in metadata["topics"]:
        for partition in topic["partitions"]:
            if not partition["error_code"] and partition["leader_id"] >= 0:
                at = TopicPartition(topic["name"], partition["partition_index"])
                led[partition["leader_id"]].append(at)
    return dict(sorted(led.items()))


def topic_observation(
    before: Mapping[str, Any],
    after: Mapping[str, Any] | None,
    partitions: tuple[PartitionObservation, ...],
    error_name: ErrorName,
) -> TopicObservation:
    """One topic, from its metadata before and after its offsets were read.

    Args:
        before: The topic in the first Metadata response.
        after: The topic in the second Metadata response; None if it is missing there.
        partitions: Its partitions, in the order of their numbers.
        error_name: Gives the name of a Kafka error code.

    Raises:
        TopicIdMissing: A broker knows the topic, and gives it no id.
    """
    name = str(before["name"])
    code = before["error_code"]
    codes = {code, after["error_code"] if after is not None else None}
    if code in _MISSING and codes <= set(_MISSING):
        return TopicObservation(name, None)
    if code and code not in _TRANSIENT_CODES:
        return TopicObservation(name, None, refusal=error_name(code))
    if after is None or codes != {0}:
        worst = max(c for c in (*codes, 0) if c is not None)
        return TopicObservation(name, None, fault=error_name(worst))
    if not (_has_id(before) and _has_id(after)):
        raise _id_missing(name)
    if before["topic_id"] != after["topic_id"]:
        return TopicObservation(name, None, fault="the topic id changed during the observation")
    return TopicObservation(name, str(before["topic_id"]), partitions)


def refuse_shared_ids(topics: Iterable[TopicObservation]) -> None:
    """Make sure that no two topics have one id.

    Raises:
        TopicIdMissing: Two have.
    """
    names: dict[str, str] = {}
    for topic in topics:
        if topic.topic_id is None:
            continue
        other = names.setdefault(topic.topic_id, topic.topic)
        if other != topic.topic:
            raise TopicIdMissing(
                f"topics {other} and {topic.topic}: the cluster gives both the topic id"
                f" {topic.topic_id}, so it identifies neither (KIP-516). Nothing was read, and"
                " nothing is known to be lost. Such a service cannot be a source",
                topic=topic.topic,
            )


def _has_id(topic: Mapping[str, Any]) -> bool:
    """Whether a topic has an id; brokers say zero for none, kafka-python says None."""
    return topic.get("topic_id") is not None and UUID(str(topic["topic_id"])).int != 0


def _id_missing(topic: str) -> TopicIdMissing:
    return TopicIdMissing(
        f"topic {topic}: the cluster gives it no topic id (KIP-516), so a topic that is deleted and"
        " created again could not be told from this one. Nothing was read, and nothing is known to"
        " be lost. Brokers give ids from Kafka 2.8 on (Metadata version 10), once every broker's"
        " inter.broker.protocol.version is 2.8 or later: upgrade the cluster. A service that speaks"
        " Kafka's protocol without topic ids cannot be a source",
        topic=topic,
    )


def partition_observation(
    topic: str,
    metadata: Mapping[str, Any],
    starts: Mapping[TopicPartition, Any],
    ends: Mapping[TopicPartition, Any],
    stable: Mapping[TopicPartition, Any],
    epoch_ends: Mapping[TopicPartition, Any],
    error_name: ErrorName,
) -> PartitionObservation:
    """One partition, from its leader's answers.

    Its errors are a fault if all of them are transient, otherwise a refusal.

    Args:
        topic: Topic name.
        metadata: The partition in the Metadata response.
        starts: Answers to ListOffsets about the log start, of all partitions.
        ends: Answers about the high watermark.
        stable: Answers about the last stable offset.
        epoch_ends: Answers to OffsetsForLeaderEpoch; a partition that was not asked is absent.
        error_name: Gives the name of a Kafka error code.
    """
    number = int(metadata["partition_index"])
    at = TopicPartition(topic, number)
    answers = [known.get(at) for known in (starts, ends, stable)]
    codes = [metadata["error_code"], *(a.error_code for a in answers if a is not None)]
    epoch_end = epoch_ends.get(at)
    if epoch_end is not None:
        codes.append(epoch_end.error_code)
    errors = [code for code in codes if code]
    if not errors and None in answers:
        return PartitionObservation(number, fault="no leader")
    if errors:
        text = error_name(errors[0])
        if all(code in _TRANSIENT_CODES for code in errors):
            return PartitionObservation(number, fault=text)
        return PartitionObservation(number, refusal=text)
    return PartitionObservation(
        partition=number,
        leader_epoch=ends[at].leader_epoch if ends[at].leader_epoch >= 0 else None,
        log_start_offset=starts[at].offset,
        high_watermark=ends[at].offset,
        last_stable_offset=stable[at].offset,
        epoch_end_offset=None if epoch_end is None else epoch_end.end_offset,
    )
