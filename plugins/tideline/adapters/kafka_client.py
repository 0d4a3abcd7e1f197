"""The only place that speaks to Kafka, through kafka-python's admin client.

One look costs two Metadata requests, and per leader one ListOffsets request each for the log
start, the high watermark and the last stable offset, and one OffsetsForLeaderEpoch. The topic ids
are read before and after, since offsets are asked for by topic name.

kafka-python has no public OffsetsForLeaderEpoch and raises on the first partition's error in its
public ListOffsets, so both go through the admin client's connection manager (`_manager`), as its
own mixins do; tests/integration/test_kafka_client.py holds that against a real broker.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, TypeVar

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.protocol.consumer.offsets import OffsetForLeaderEpochRequest
from kafka.structs import OffsetAndMetadata, TopicPartition
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_exponential_jitter

from tideline.adapters.kafka_settings import KafkaSettings
from tideline.core.observation import Observation, PartitionObservation, TopicObservation
from tideline.errors import Halted, Passing, ServiceAway

Answer = TypeVar("Answer")
Place = tuple[str, int]

_EARLIEST, _LATEST = -2, -1
_READ_UNCOMMITTED, _READ_COMMITTED = 0, 1
_MISSING = (3, 100)  # UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID
_PASSING_CODES = frozenset({3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 56, 72, 74, 75, 76, 78, 100, 103})
"""Kafka error codes that another look may find gone (protocol guide, "Error Codes")."""
_ABSENT_EPOCH = -1


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

    @property
    def patience_seconds(self) -> float:
        """How long passing faults are waited out."""
        return self.settings.patience_seconds

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

    async def _metadata(self, topics: list[str] | None) -> dict[str, Any]:
        self.requests += 1
        found: dict[str, Any] = await self._connected()._get_cluster_metadata(topics)
        return found

    async def _observe(self, topics: list[str], epochs: Mapping[Place, int]) -> Observation:
        before = await self._metadata(topics)
        by_leader = _partitions_by_leader(before)
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
        after = {t["name"]: t for t in (await self._metadata(topics))["topics"]}
        observed = []
        for topic in sorted(before["topics"], key=lambda t: str(t["name"])):
            name = topic["name"]
            partitions = tuple(
                _partition(name, p, starts, ends, stable, epoch_ends)
                for p in sorted(topic["partitions"], key=lambda p: int(p["partition_index"]))
            )
            observed.append(_topic(topic, after.get(name), partitions))
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
        for leader, led in _partitions_by_leader(metadata).items():
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


def _partitions_by_leader(metadata: Mapping[str, Any]) -> dict[int, list[Place]]:
    led: dict[int, list[Place]] = defaultdict(list)
    for topic in metadata["topics"]:
        for partition in topic["partitions"]:
            if not partition["error_code"] and partition["leader_id"] >= 0:
                led[partition["leader_id"]].append((topic["name"], partition["partition_index"]))
    return dict(sorted(led.items()))


def _topic(
    before: Mapping[str, Any],
    after: Mapping[str, Any] | None,
    partitions: tuple[PartitionObservation, ...],
) -> TopicObservation:
    name = str(before["name"])
    code = before["error_code"]
    codes = {code, after["error_code"] if after is not None else None}
    if code in _MISSING and codes <= set(_MISSING):
        return TopicObservation(name, None)
    if code and code not in _PASSING_CODES:
        return TopicObservation(name, None, refusal=kafka_errors.for_code(code).__name__)
    if after is None or codes != {0}:
        worst = max(c for c in (*codes, 0) if c is not None)
        return TopicObservation(name, None, fault=kafka_errors.for_code(worst).__name__)
    if before["topic_id"] != after["topic_id"]:
        return TopicObservation(name, None, fault="topic id changed while it was looked at")
    return TopicObservation(name, str(before["topic_id"]), partitions)


def _partition(
    topic: str,
    metadata: Mapping[str, Any],
    starts: Mapping[Place, Any],
    ends: Mapping[Place, Any],
    stable: Mapping[Place, Any],
    epoch_ends: Mapping[Place, Any],
) -> PartitionObservation:
    number = int(metadata["partition_index"])
    place = (topic, number)
    answers = [known.get(place) for known in (starts, ends, stable)]
    codes = [metadata["error_code"], *(a.error_code for a in answers if a is not None)]
    epoch_end = epoch_ends.get(place)
    if epoch_end is not None:
        codes.append(epoch_end.error_code)
    errors = [code for code in codes if code]
    if not errors and None in answers:
        return PartitionObservation(number, fault="no leader")
    if errors:
        text = kafka_errors.for_code(errors[0]).__name__
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
