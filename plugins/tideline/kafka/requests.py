"""The requests behind the client, and what brokers' answers to them mean.

One observation sends two Metadata requests. To each leader it sends three ListOffsets requests (log
start, high watermark, last stable offset) and one OffsetsForLeaderEpoch request. Offsets are asked
for by topic name, so the topic ids are read before and after them. The two Metadata requests go to
two brokers if there are two: a broker with outdated metadata then contradicts the other one.

kafka-python has no public OffsetsForLeaderEpoch, and its public ListOffsets raises at the first
error of a partition. So these requests use the admin client's connection manager (`_manager`), as
the client's own mixins do. tests/integration/test_kafka_contract.py checks that with a real broker.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from tideline.errors import TopicIdMissing
from tideline.kafka.record_batches import BatchReader
from tideline.model.observation import (
    Ends,
    Gap,
    Observation,
    PartitionObservation,
    TimedOffset,
    TopicObservation,
)
from tideline.model.offsets import Intervals, TopicPartition

_EARLIEST, _LATEST = -2, -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_ISOLATION = {"read_uncommitted": _READ_UNCOMMITTED, "read_committed": _READ_COMMITTED}
_ABSENT_EPOCH = -1
_NO_EPOCH = (
    "its leader gives no leader epoch (KIP-320), so Tideline could not recognize a truncated log."
    " A service that speaks Kafka's protocol without leader epochs cannot be a source"
)
_TOPIC = MetadataRequest.MetadataRequestTopic
_MISSING = (3, 100)  # UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID
_TRANSIENT_CODES = frozenset({3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 56, 72, 74, 75, 78, 100, 103})
"""Kafka error codes that a later observation may not meet (protocol guide, "Error Codes")."""


class KafkaRequests:
    """Coroutines for the event loop of the admin client; they raise kafka-python's errors.

    Args:
        connected: Returns the client, and connects it first if necessary.
    """

    def __init__(self, connected: Callable[[], KafkaAdminClient]) -> None:
        self._connected = connected
        self.count = 0

    async def send(self, request: Any, node_id: int | None = None) -> Any:
        """Send one request to a broker, given by id; None sends it to any broker."""
        self.count += 1
        return await self._connected()._manager.send(request, node_id=node_id)

    async def metadata(
        self, topics: list[str] | None, node_id: int | None = None
    ) -> dict[str, Any]:
        """What a broker knows about topics: ids, partitions, leaders; None asks for all topics."""
        wanted = None if topics is None else [_TOPIC(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        answer: dict[str, Any] = (await self.send(request, node_id)).to_dict(json=False)
        return answer

    async def examine(
        self, missing: Mapping[TopicPartition, Intervals], isolation_level: str
    ) -> dict[TopicPartition, tuple[Gap, ...]]:
        """Why offsets have no row, as far as the batches of the log show it."""
        committed = isolation_level == "read_committed"
        metadata = await self.metadata(sorted({topic for topic, _ in missing}))
        leaders = _leaders(metadata)
        starts = await self._offsets_of(missing, metadata, _EARLIEST)
        log_starts = {partition: answer.offset for partition, answer in starts.items()}
        reader = BatchReader(self.send, leaders, committed, log_starts)
        return {
            partition: await reader.examine(partition, offsets)
            for partition, offsets in missing.items()
        }

    async def written_at(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, datetime | None]:
        """When the record at an offset was written, or the next one after it."""
        metadata = await self.metadata(sorted({topic for topic, _ in offsets}))
        return await BatchReader(self.send, _leaders(metadata), committed=False).times(offsets)

    async def observe(self, topics: list[str], epochs: Mapping[TopicPartition, int]) -> Observation:
        """One observation; the module says which requests it sends."""
        first = self._connected()._manager.least_loaded_node()
        before = await self.metadata(topics, first)
        by_leader = partitions_by_leader(before)
        starts: dict[TopicPartition, Any] = {}
        ends: dict[TopicPartition, Any] = {}
        stable: dict[TopicPartition, Any] = {}
        epoch_ends: dict[TopicPartition, Any] = {}
        for leader, led in by_leader.items():
            starts |= await self.list_offsets(leader, led, _EARLIEST, _READ_UNCOMMITTED)
            ends |= await self.list_offsets(leader, led, _LATEST, _READ_UNCOMMITTED)
            stable |= await self.list_offsets(leader, led, _LATEST, _READ_COMMITTED)
            known = {partition: epochs[partition] for partition in led if partition in epochs}
            if known:
                epoch_ends |= await self.epoch_ends(leader, known)
        others = [b["node_id"] for b in before["brokers"] if b["node_id"] != first]
        second = random.choice(others) if others else first
        after = {t["name"]: t for t in (await self.metadata(topics, second))["topics"]}
        observed = []
        for topic in sorted(before["topics"], key=lambda t: str(t["name"])):
            name = topic["name"]
            partitions = tuple(
                partition_observation(name, p, starts, ends, stable, epoch_ends)
                for p in sorted(topic["partitions"], key=lambda p: int(p["partition_index"]))
            )
            observed.append(topic_observation(topic, after.get(name), partitions))
        refuse_shared_ids(observed)
        return Observation(datetime.now(UTC), str(before["cluster_id"]), tuple(observed))

    async def list_offsets(
        self, leader: int, partitions: Iterable[TopicPartition], timestamp: int, isolation: int
    ) -> dict[TopicPartition, Any]:
        """One leader's answer to ListOffsets, per partition.

        Args:
            leader: Id of the broker.
            partitions: Partitions that it leads.
            timestamp: Milliseconds since 1970, or `_EARLIEST` or `_LATEST`.
            isolation: `_READ_UNCOMMITTED` or `_READ_COMMITTED`.
        """
        asked = dict.fromkeys(partitions, timestamp)
        request = KafkaAdminClient._list_partition_offsets_request(asked, isolation)
        response = await self.send(request, leader)
        return {
            TopicPartition(t.name, p.partition_index): p
            for t in response.topics
            for p in t.partitions
        }

    async def epoch_ends(
        self, leader: int, epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, Any]:
        """One leader's answer to OffsetsForLeaderEpoch (KIP-101, KIP-320), per partition."""
        topic_type = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        partition_type = topic_type.OffsetForLeaderPartition
        by_topic = defaultdict(list)
        for (name, number), epoch in epochs.items():
            by_topic[name].append(
                partition_type(
                    partition=number, current_leader_epoch=_ABSENT_EPOCH, leader_epoch=epoch
                )
            )
        request = OffsetForLeaderEpochRequest(
            replica_id=-1,  # a consumer, not a follower (KIP-320)
            topics=[topic_type(topic=name, partitions=ps) for name, ps in by_topic.items()],
        )
        response = await self.send(request, leader)
        found = {
            TopicPartition(t.topic, p.partition): p for t in response.topics for p in t.partitions
        }
        if unsaid := epochs.keys() - found.keys():  # None stands for "not asked"
            raise kafka_errors.LeaderNotAvailableError(f"no end of the epoch of {min(unsaid)}")
        return found

    async def offsets_at(
        self, timestamp_ms: int, partitions: list[TopicPartition]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """The first record of each partition at or after a timestamp; None if there is none."""
        metadata = await self.metadata(sorted({name for name, _ in partitions}))
        wanted = set(partitions)
        answers = await self._offsets_of(wanted, metadata, timestamp_ms)
        unanswered = wanted - set(answers)
        if unanswered:
            names = ", ".join(f"{topic}-{number}" for topic, number in sorted(unanswered))
            raise kafka_errors.LeaderNotAvailableError(f"no leader for {names}")
        return {
            partition: TimedOffset(answer.offset, answer.timestamp) if answer.offset >= 0 else None
            for partition, answer in answers.items()
        }

    async def ends(
        self, topics: Mapping[str, str], ages: Mapping[int, Collection[str]], now_ms: int
    ) -> Ends:
        """Where topics end, and where what is young begins; what cannot be told is left out.

        One Metadata request; to each leader one ListOffsets for each isolation and each age.

        Args:
            topics: The isolation level by which each is read.
            ages: Topics by age in seconds.
            now_ms: Milliseconds since 1970.
        """
        known = await self.metadata(sorted(topics))
        led = partitions_by_leader(known)
        ids = {str(t["name"]): str(t["topic_id"]) for t in known["topics"]}
        ends: dict[str, dict[int, int]] = defaultdict(dict)
        young: dict[int, dict[str, dict[int, int]]] = {age: defaultdict(dict) for age in ages}
        for leader, partitions in led.items():
            for level, isolation in _ISOLATION.items():
                asked = [p for p in partitions if topics.get(p.topic) == level]
                for place, end in (await self._told(leader, asked, _LATEST, isolation)).items():
                    ends[place.topic][place.partition] = end
            for age, names in ages.items():
                asked, since = [p for p in partitions if p.topic in names], now_ms - age * 1000
                answers = await self._told(leader, asked, since, _READ_UNCOMMITTED)
                for (topic, number), at in answers.items():
                    first = at if at >= 0 else ends[topic].get(number, 0)
                    young[age][topic][number] = first
        return Ends(ends, young, ids)

    async def _told(
        self, leader: int, partitions: list[TopicPartition], timestamp: int, isolation: int
    ) -> dict[TopicPartition, int]:
        """A leader's answer to ListOffsets, without partitions of which it can tell nothing."""
        if not partitions:
            return {}
        answers = await self.list_offsets(leader, partitions, timestamp, isolation)
        return {p: int(answer.offset) for p, answer in answers.items() if not answer.error_code}

    async def _offsets_of(
        self, wanted: Collection[TopicPartition], metadata: Mapping[str, Any], timestamp: int
    ) -> dict[TopicPartition, Any]:
        """Every leader's answer to ListOffsets for what it leads; none where there is no leader.

        Args:
            wanted: Other partitions of the metadata are not asked for.
            metadata: Says who leads.
            timestamp: As in `list_offsets`.
        """
        answers: dict[TopicPartition, Any] = {}
        for leader, led in partitions_by_leader(metadata).items():
            asked = [partition for partition in led if partition in wanted]
            if not asked:
                continue
            answered = await self.list_offsets(leader, asked, timestamp, _READ_UNCOMMITTED)
            for partition, answer in answered.items():
                if answer.error_code:
                    raise kafka_errors.for_code(answer.error_code)(str(partition))
            answers |= answered
        return answers


def partitions_by_leader(metadata: Mapping[str, Any]) -> dict[int, list[TopicPartition]]:
    """The partitions that each broker leads; those without a leader are left out."""
    led: dict[int, list[TopicPartition]] = defaultdict(list)
    for topic in metadata["topics"]:
        for partition in topic["partitions"]:
            if not partition["error_code"] and partition["leader_id"] >= 0:
                at = TopicPartition(topic["name"], partition["partition_index"])
                led[partition["leader_id"]].append(at)
    return dict(sorted(led.items()))


def _leaders(metadata: Mapping[str, Any]) -> dict[TopicPartition, int]:
    led = partitions_by_leader(metadata)
    return {partition: leader for leader, partitions in led.items() for partition in partitions}


def topic_observation(
    before: Mapping[str, Any],
    after: Mapping[str, Any] | None,
    partitions: tuple[PartitionObservation, ...],
) -> TopicObservation:
    """One topic, from its metadata before and after its offsets were read.

    Args:
        before: The topic in the first Metadata response.
        after: The topic in the second Metadata response; None if it is missing there.
        partitions: Its partitions, in the order of their numbers.

    Raises:
        TopicIdMissing: A broker knows the topic, and gives it no id.
    """
    name = str(before["name"])
    code = before["error_code"]
    codes = {code, after["error_code"] if after is not None else None}
    if code in _MISSING and codes <= set(_MISSING):
        return TopicObservation(name, None)
    if code and code not in _TRANSIENT_CODES:
        return TopicObservation(name, None, refusal=_error_name(code))
    if after is None or codes != {0}:
        worst = max(c for c in (*codes, 0) if c is not None)
        return TopicObservation(name, None, fault=_error_name(worst))
    if not (_has_id(before) and _has_id(after)):
        raise _id_missing(name)
    if before["topic_id"] != after["topic_id"]:
        return TopicObservation(name, None, fault="the topic id changed during the observation")
    return TopicObservation(name, str(before["topic_id"]), partitions)


def _has_id(topic: Mapping[str, Any]) -> bool:
    """Whether a topic has an id; brokers say zero for none, kafka-python says None."""
    return topic.get("topic_id") is not None and UUID(str(topic["topic_id"])).int != 0


def _id_missing(topic: str) -> TopicIdMissing:
    return TopicIdMissing(
        f"topic {topic}: the cluster gives it no topic id (KIP-516), so Tideline could not"
        " recognize a re-created topic. Nothing was read, and nothing is known to"
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
) -> PartitionObservation:
    """One partition, from its leader's answers.

    Its errors are a fault if all of them are transient, otherwise a refusal.

    Args:
        topic: Its name.
        metadata: The partition in the Metadata response.
        starts: Answers to ListOffsets about the log start, of all partitions.
        ends: Answers about the high watermark.
        stable: Answers about the last stable offset.
        epoch_ends: Answers to OffsetsForLeaderEpoch; a partition that was not asked is absent.
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
    if not errors and any(a is not None and a.offset < 0 for a in answers):
        return PartitionObservation(number, fault="no offset in the leader's answer")
    if errors:
        text = _error_name(errors[0])
        if all(code in _TRANSIENT_CODES for code in errors):
            return PartitionObservation(number, fault=text)
        return PartitionObservation(number, refusal=text)
    if ends[at].leader_epoch < 0 and ends[at].offset > starts[at].offset:
        return PartitionObservation(number, refusal=_NO_EPOCH)
    return PartitionObservation(
        partition=number,
        leader_epoch=ends[at].leader_epoch if ends[at].leader_epoch >= 0 else None,
        log_start_offset=starts[at].offset,
        high_watermark=ends[at].offset,
        last_stable_offset=stable[at].offset,
        epoch_end_offset=None if epoch_end is None else epoch_end.end_offset,
    )


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


def _error_name(code: int) -> str:
    return str(kafka_errors.for_code(code).__name__)
