"""From brokers' answers to observations: which error means what. No client needed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

from tideline.model.observation import PartitionObservation, TopicObservation
from tideline.model.offsets import TopicPartition

ErrorName = Callable[[int], str]

_MISSING = (3, 100)  # UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID
_PASSING_CODES = frozenset({3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 56, 72, 74, 75, 78, 100, 103})
"""Kafka error codes that another look may find gone (protocol guide, "Error Codes")."""


def partitions_by_leader(metadata: Mapping[str, Any]) -> dict[int, list[TopicPartition]]:
    """Who has to be asked about what; partitions without a leader are left out."""
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic in metadata["topics"]:
        for partition in topic["partitions"]:
            if not partition["error_code"] and partition["leader_id"] >= 0:
                place = TopicPartition(topic["name"], partition["partition_index"])
                led[partition["leader_id"]].append(place)
    return dict(sorted(led.items()))


def topic_observation(
    before: Mapping[str, Any],
    after: Mapping[str, Any] | None,
    partitions: tuple[PartitionObservation, ...],
    error_name: ErrorName,
) -> TopicObservation:
    """One topic from its metadata before and after its offsets were asked for."""
    name = str(before["name"])
    code = before["error_code"]
    codes = {code, after["error_code"] if after is not None else None}
    if code in _MISSING and codes <= set(_MISSING):
        return TopicObservation(name, None)
    if code and code not in _PASSING_CODES:
        return TopicObservation(name, None, refusal=error_name(code))
    if after is None or codes != {0}:
        worst = max(c for c in (*codes, 0) if c is not None)
        return TopicObservation(name, None, fault=error_name(worst))
    if before["topic_id"] != after["topic_id"]:
        return TopicObservation(name, None, fault="topic id changed while it was looked at")
    return TopicObservation(name, str(before["topic_id"]), partitions)


def partition_observation(
    topic: str,
    metadata: Mapping[str, Any],
    starts: Mapping[TopicPartition, Any],
    ends: Mapping[TopicPartition, Any],
    stable: Mapping[TopicPartition, Any],
    epoch_ends: Mapping[TopicPartition, Any],
    error_name: ErrorName,
) -> PartitionObservation:
    """One partition from its leader's answers; the first error that will not pass counts."""
    number = int(metadata["partition_index"])
    place = TopicPartition(topic, number)
    answers = [known.get(place) for known in (starts, ends, stable)]
    codes = [metadata["error_code"], *(a.error_code for a in answers if a is not None)]
    epoch_end = epoch_ends.get(place)
    if epoch_end is not None:
        codes.append(epoch_end.error_code)
    errors = [code for code in codes if code]
    if not errors and None in answers:
        return PartitionObservation(number, fault="no leader")
    if errors:
        text = error_name(errors[0])
        if all(code in _PASSING_CODES for code in errors):
            return PartitionObservation(number, fault=text)
        return PartitionObservation(number, refusal=text)
    return PartitionObservation(
        partition=number,
        leader_epoch=ends[place].leader_epoch if ends[place].leader_epoch >= 0 else None,
        log_start_offset=starts[place].offset,
        high_watermark=ends[place].offset,
        last_stable_offset=stable[place].offset,
        epoch_end_offset=None if epoch_end is None else epoch_end.end_offset,
    )
