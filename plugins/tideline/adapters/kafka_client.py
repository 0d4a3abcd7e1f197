"""The only place that speaks to Kafka, through kafka-python's admin client.

One look costs two Metadata requests, and per leader one ListOffsets request each for the log
start, the high watermark and the last stable offset, and one OffsetsForLeaderEpoch. The topic ids
are read before and after, since offsets are asked for by topic name, and from two brokers where
there are two: one that lags behind would contradict the other.

kafka-python has no public OffsetsForLeaderEpoch and raises on the first partition's error in its
public ListOffsets, so both go through the admin client's connection manager (`_manager`), as its
own mixins do; tests/integration/test_kafka_client.py holds that against a real broker.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.admin import ConfigResource, ConfigResourceType
from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.structs import OffsetAndMetadata, TopicPartition
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from tideline.adapters.kafka_answers import (
    partition_observation,
    partitions_by_leader,
    topic_observation,
)
from tideline.adapters.kafka_batches import BatchReader
from tideline.adapters.kafka_settings import KafkaSettings
from tideline.core.coverage import Intervals
from tideline.core.gap_evidence import Gap
from tideline.core.observation import Observation
from tideline.core.offsets import Place
from tideline.errors import Halted, Passing, ServiceAway

Answer = TypeVar("Answer")

_EARLIEST, _LATEST = -2, -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_ABSENT_EPOCH = -1
_TOPIC = MetadataRequest.MetadataRequestTopic


class KafkaCluster:
    """Offsets, ids and epochs of one cluster.

    Args:
        settings: Checked client properties.

    Every method tries again for `settings.patience_seconds`, then raises `ServiceAway` when the
    cluster cannot be reached or is busy with itself; it raises `Halted` when the cluster refuses.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.requests = 0
        self._admin: KafkaAdminClient | None = None

    def __enter__(self) -> KafkaCluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Drop the connections; the next call opens new ones."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def topics_matching(self, pattern: str) -> list[str]:
        """Names of topics that the whole pattern matches, internal ones left out."""
        expression = re.compile(pattern)
        metadata = self._call(self._metadata, None)
        return sorted(
            topic["name"]
            for topic in metadata["topics"]
            if not topic["is_internal"] and expression.fullmatch(topic["name"])
        )

    def observe(self, topics: Iterable[str], epochs: Mapping[Place, int]) -> Observation:
        """One look at every partition of the named topics.

        Args:
            topics: Names; a name that the cluster does not know comes back with no topic id.
            epochs: Leader epochs whose end offset is wanted, by (topic, partition).
        """
        found: Observation = self._call(self._observe, sorted(set(topics)), epochs)
        return found

    def offsets_at(self, instant: datetime, partitions: Iterable[Place]) -> dict[Place, int | None]:
        """First offset whose timestamp is at or after the instant; None where there is none."""
        timestamp_ms = round(instant.timestamp() * 1000)
        found: dict[Place, int | None] = self._call(
            self._offsets_at, timestamp_ms, list(partitions)
        )
        return found

    def committed_offsets(self, group: str, partitions: Iterable[Place]) -> dict[Place, int | None]:
        """Next offsets that a consumer group has committed; None where it has not."""
        places = list(partitions)
        specs = {group: [TopicPartition(*place) for place in places]}
        found = self._public(lambda admin: admin.list_group_offsets(specs))[group]
        offsets: dict[Place, int | None] = dict.fromkeys(places)
        for place in places:
            committed = found.get(TopicPartition(*place))
            if committed is not None and committed.offset >= 0:
                offsets[place] = committed.offset
        return offsets

    def examine(
        self, missing: Mapping[Place, Intervals], isolation_level: str
    ) -> dict[Place, tuple[Gap, ...]]:
        """Why offsets have no row, from the batches that the log holds there."""
        found: dict[Place, tuple[Gap, ...]] = self._call(self._examine, missing, isolation_level)
        return found

    def written_at(self, offsets: Mapping[Place, int]) -> dict[Place, datetime | None]:
        """When the first record at or after an offset was written; None where unknown."""
        if not offsets:
            return {}
        found: dict[Place, datetime | None] = self._call(self._written_at, offsets)
        return found

    def retention_ms(self, topics: Iterable[str]) -> dict[str, int | None]:
        """The time after which topics delete records; None where time deletes nothing."""
        names = sorted(set(topics))
        wanted = ["retention.ms", "cleanup.policy"]
        resources = [ConfigResource(ConfigResourceType.TOPIC, n, wanted) for n in names]
        answer = self._public(lambda admin: admin.describe_configs(resources, config_filter="all"))
        found: dict[str, int | None] = dict.fromkeys(names)
        for name, settings in answer.get("topic", {}).items():
            values = {key: setting["value"] for key, setting in settings.items()}
            if "delete" in values.get("cleanup.policy", "delete"):
                kept = int(values.get("retention.ms", -1))
                found[name] = kept if kept >= 0 else None
        return found

    def commit_group(self, group: str, next_offsets: Mapping[Place, int]) -> None:
        """Tell a consumer group its next offsets, for lag tools; never read back as truth."""
        offsets = {
            TopicPartition(*place): OffsetAndMetadata(offset, "", None)
            for place, offset in next_offsets.items()
        }
        answers = self._public(lambda admin: admin.alter_group_offsets(group, offsets))
        refused = {
            str(tp): e.__name__ for tp, e in answers.items() if e is not kafka_errors.NoError
        }
        if refused:
            raise ServiceAway(f"group {group}: offsets not taken: {refused}", group=group)

    def _connected(self) -> KafkaAdminClient:
        if self._admin is None:
            self._admin = KafkaAdminClient(
                **self.settings.for_python(),
                bootstrap_timeout_ms=self.settings.request_timeout_ms,
                reconnect_backoff_max_ms=1000,
            )
        return self._admin

    def _public(self, ask: Callable[[KafkaAdminClient], Answer]) -> Answer:
        for attempt in Retrying(
            stop=stop_after_delay(self.settings.patience_seconds),
            wait=wait_exponential_jitter(multiplier=0.1, max=2),
            retry=retry_if_exception_type(Passing),
            reraise=True,
        ):
            with attempt:
                try:
                    return ask(self._connected())
                except (kafka_errors.KafkaError, OSError) as error:
                    self.close()
                    raise _translated(error, self.settings) from error
        raise AssertionError("unreachable")

    def _call(self, coroutine: Callable[..., Any], *args: Any) -> Any:
        return self._public(lambda admin: admin._manager.run(coroutine, *args))

    async def _send(self, request: Any, node_id: int | None = None) -> Any:
        self.requests += 1
        return await self._connected()._manager.send(request, node_id=node_id)

    async def _metadata(
        self, topics: list[str] | None, node_id: int | None = None
    ) -> dict[str, Any]:
        wanted = None if topics is None else [_TOPIC(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
        found: dict[str, Any] = (await self._send(request, node_id)).to_dict(json=False)
        return found

    async def _examine(
        self, missing: Mapping[Place, Intervals], isolation_level: str
    ) -> dict[Place, tuple[Gap, ...]]:
        committed = isolation_level == "read_committed"
        metadata = await self._metadata(sorted({topic for topic, _ in missing}))
        leaders = _leaders(metadata)
        log_starts: dict[Place, int] = {}
        for leader, places in partitions_by_leader(metadata).items():
            asked = [place for place in places if place in missing]
            starts = await self._list_offsets(leader, asked, _EARLIEST, _READ_UNCOMMITTED)
            log_starts |= {place: found.offset for place, found in starts.items()}
        reader = BatchReader(self._send, leaders, committed, log_starts)
        return {place: await reader.examine(place, gaps) for place, gaps in missing.items()}

    async def _written_at(self, offsets: Mapping[Place, int]) -> dict[Place, datetime | None]:
        metadata = await self._metadata(sorted({topic for topic, _ in offsets}))
        return await BatchReader(self._send, _leaders(metadata), committed=False).times(offsets)

    async def _observe(self, topics: list[str], epochs: Mapping[Place, int]) -> Observation:
        first = self._connected()._manager.least_loaded_node()
        before = await self._metadata(topics, first)
        by_leader = partitions_by_leader(before)
        starts: dict[Place, Any] = {}
        ends: dict[Place, Any] = {}
        stable: dict[Place, Any] = {}
        epoch_ends: dict[Place, Any] = {}
        for leader, places in by_leader.items():
            starts |= await self._list_offsets(leader, places, _EARLIEST, _READ_UNCOMMITTED)
            ends |= await self._list_offsets(leader, places, _LATEST, _READ_UNCOMMITTED)
            stable |= await self._list_offsets(leader, places, _LATEST, _READ_COMMITTED)
            known = {place: epochs[place] for place in places if place in epochs}
            if known:
                epoch_ends |= await self._epoch_ends(leader, known)
        others = [b["node_id"] for b in before["brokers"] if b["node_id"] != first]
        second = random.choice(others) if others else first
        after = {t["name"]: t for t in (await self._metadata(topics, second))["topics"]}
        observed = []
        for topic in sorted(before["topics"], key=lambda t: str(t["name"])):
            name = topic["name"]
            partitions = tuple(
                partition_observation(name, p, starts, ends, stable, epoch_ends, _error_name)
                for p in sorted(topic["partitions"], key=lambda p: int(p["partition_index"]))
            )
            observed.append(topic_observation(topic, after.get(name), partitions, _error_name))
        return Observation(datetime.now(UTC), str(before["cluster_id"]), tuple(observed))

    async def _list_offsets(
        self, leader: int, places: Iterable[Place], timestamp: int, isolation: int
    ) -> dict[Place, Any]:
        asked = {TopicPartition(*place): timestamp for place in places}
        request = KafkaAdminClient._list_partition_offsets_request(asked, isolation)
        response = await self._send(request, leader)
        return {(t.name, p.partition_index): p for t in response.topics for p in t.partitions}

    async def _epoch_ends(self, leader: int, epochs: Mapping[Place, int]) -> dict[Place, Any]:
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
        response = await self._send(request, leader)
        return {(t.topic, p.partition): p for t in response.topics for p in t.partitions}

    async def _offsets_at(self, timestamp_ms: int, places: list[Place]) -> dict[Place, int | None]:
        metadata = await self._metadata(sorted({name for name, _ in places}))
        wanted = set(places)
        found: dict[Place, int | None] = {}
        for leader, led in partitions_by_leader(metadata).items():
            asked = [place for place in led if place in wanted]
            if not asked:
                continue
            answers = await self._list_offsets(leader, asked, timestamp_ms, _READ_UNCOMMITTED)
            for place, answer in answers.items():
                if answer.error_code:
                    raise kafka_errors.for_code(answer.error_code)(f"{place[0]}-{place[1]}")
                found[place] = answer.offset if answer.offset >= 0 else None
        lost = wanted - set(found)
        if lost:
            raise kafka_errors.LeaderNotAvailableError(f"no leader for {sorted(lost)}")
        return found


def _leaders(metadata: Mapping[str, Any]) -> dict[Place, int]:
    led = partitions_by_leader(metadata)
    return {place: leader for leader, places in led.items() for place in places}


def _error_name(code: int) -> str:
    return str(kafka_errors.for_code(code).__name__)


def _translated(error: Exception, settings: KafkaSettings) -> Passing | Halted:
    servers = settings.properties["bootstrap.servers"]
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    refused = (
        kafka_errors.AuthorizationError,
        kafka_errors.UnsupportedVersionError,
        kafka_errors.KafkaConfigurationError,
    )
    if isinstance(error, refused):
        return Halted(f"Kafka at {servers} refuses: {text}", bootstrap_servers=servers)
    return ServiceAway(
        f"Kafka at {servers} does not answer: {text}; nothing moved, try again when it is back",
        bootstrap_servers=servers,
    )
