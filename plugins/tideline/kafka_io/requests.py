"""The requests behind one look, spoken through kafka-python's connection manager.

One look costs two Metadata requests, and per leader one ListOffsets request each for the log
start, the high watermark and the last stable offset, and one OffsetsForLeaderEpoch. The topic ids
are read before and after, since offsets are asked for by topic name, and from two brokers where
there are two: one that lags behind would contradict the other.

kafka-python has no public OffsetsForLeaderEpoch and raises on the first partition's error in its
public ListOffsets, so all of them go through the admin client's connection manager (`_manager`), as
its own mixins do; tests/integration/test_kafka_client.py holds that against a real broker.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from tideline.kafka_io.record_batches import BatchReader
from tideline.kafka_io.responses import (
    partition_observation,
    partitions_by_leader,
    topic_observation,
)
from tideline.model.coverage import Intervals
from tideline.model.gaps import Gap
from tideline.model.observation import Observation, TimedOffset
from tideline.model.offsets import TopicPartition

_EARLIEST, _LATEST = -2, -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_ABSENT_EPOCH = -1
_TOPIC = MetadataRequest.MetadataRequestTopic


class KafkaRequests:
    """Coroutines for the admin client's own event loop; they raise kafka-python's errors.

    Args:
        connected: Gives the client, connecting it where it is not.
    """

    def __init__(self, connected: Callable[[], KafkaAdminClient]) -> None:
        self._connected = connected
        self.count = 0

    async def send(self, request: Any, node_id: int | None = None) -> Any:
        """One request, to a broker by id or to any."""
        self.count += 1
        return await self._connected()._manager.send(request, node_id=node_id)

    async def metadata(
        self, topics: list[str] | None, node_id: int | None = None
    ) -> dict[str, Any]:
        """What a broker knows about topics: ids, partitions, leaders."""
        wanted = None if topics is None else [_TOPIC(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        found: dict[str, Any] = (await self.send(request, node_id)).to_dict(json=False)
        return found

    async def examine(
        self, missing: Mapping[TopicPartition, Intervals], isolation_level: str
    ) -> dict[TopicPartition, tuple[Gap, ...]]:
        """Why offsets have no row, from the batches that the log holds there."""
        committed = isolation_level == "read_committed"
        metadata = await self.metadata(sorted({topic for topic, _ in missing}))
        leaders = _leaders(metadata)
        log_starts: dict[TopicPartition, int] = {}
        for leader, places in partitions_by_leader(metadata).items():
            asked = [place for place in places if place in missing]
            if not asked:
                continue
            starts = await self.list_offsets(leader, asked, _EARLIEST, _READ_UNCOMMITTED)
            for place, found in starts.items():
                if found.error_code:
                    raise kafka_errors.for_code(found.error_code)(f"{place[0]}-{place[1]}")
                log_starts[place] = found.offset
        reader = BatchReader(self.send, leaders, committed, log_starts)
        return {place: await reader.examine(place, gaps) for place, gaps in missing.items()}

    async def written_at(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, datetime | None]:
        """When the first record at or after an offset was written."""
        metadata = await self.metadata(sorted({topic for topic, _ in offsets}))
        return await BatchReader(self.send, _leaders(metadata), committed=False).times(offsets)

    async def observe(self, topics: list[str], epochs: Mapping[TopicPartition, int]) -> Observation:
        """One look; see the module."""
        first = self._connected()._manager.least_loaded_node()
        before = await self.metadata(topics, first)
        by_leader = partitions_by_leader(before)
        starts: dict[TopicPartition, Any] = {}
        ends: dict[TopicPartition, Any] = {}
        stable: dict[TopicPartition, Any] = {}
        epoch_ends: dict[TopicPartition, Any] = {}
        for leader, places in by_leader.items():
            starts |= await self.list_offsets(leader, places, _EARLIEST, _READ_UNCOMMITTED)
            ends |= await self.list_offsets(leader, places, _LATEST, _READ_UNCOMMITTED)
            stable |= await self.list_offsets(leader, places, _LATEST, _READ_COMMITTED)
            known = {place: epochs[place] for place in places if place in epochs}
            if known:
                epoch_ends |= await self.epoch_ends(leader, known)
        others = [b["node_id"] for b in before["brokers"] if b["node_id"] != first]
        second = random.choice(others) if others else first
        after = {t["name"]: t for t in (await self.metadata(topics, second))["topics"]}
        observed = []
        for topic in sorted(before["topics"], key=lambda t: str(t["name"])):
            name = topic["name"]
            partitions = tuple(
                partition_observation(name, p, starts, ends, stable, epoch_ends, _error_name)
                for p in sorted(topic["partitions"], key=lambda p: int(p["partition_index"]))
            )
            observed.append(topic_observation(topic, after.get(name), partitions, _error_name))
        return Observation(datetime.now(UTC), str(before["cluster_id"]), tuple(observed))

    async def list_offsets(
        self, leader: int, places: Iterable[TopicPartition], timestamp: int, isolation: int
    ) -> dict[TopicPartition, Any]:
        """One leader's offsets for a timestamp, or one end of the log."""
        asked = {TopicPartition(*place): timestamp for place in places}
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
        """Where a leader's epochs end."""
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
        return {
            TopicPartition(t.topic, p.partition): p for t in response.topics for p in t.partitions
        }

    async def offsets_at(
        self, timestamp_ms: int, places: list[TopicPartition]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """First record at or after a timestamp; None where there is none."""
        metadata = await self.metadata(sorted({name for name, _ in places}))
        wanted = set(places)
        found: dict[TopicPartition, TimedOffset | None] = {}
        for leader, led in partitions_by_leader(metadata).items():
            asked = [place for place in led if place in wanted]
            if not asked:
                continue
            answers = await self.list_offsets(leader, asked, timestamp_ms, _READ_UNCOMMITTED)
            for place, answer in answers.items():
                if answer.error_code:
                    raise kafka_errors.for_code(answer.error_code)(f"{place[0]}-{place[1]}")
                there = answer.offset >= 0
                found[place] = TimedOffset(answer.offset, answer.timestamp) if there else None
        lost = wanted - set(found)
        if lost:
            raise kafka_errors.LeaderNotAvailableError(f"no leader for {sorted(lost)}")
        return found


def _leaders(metadata: Mapping[str, Any]) -> dict[TopicPartition, int]:
    led = partitions_by_leader(metadata)
    return {place: leader for leader, places in led.items() for place in places}


def _error_name(code: int) -> str:
    return str(kafka_errors.for_code(code).__name__)
