"""A Kafka in memory: logs with epochs, transactions, retention; and `KafkaPort` on it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import NamedTuple

from tideline.errors import Halted, ServiceAway, TopicIdMissing
from tideline.model.observation import (
    UNDEFINED_EPOCH_END,
    Gap,
    GapReason,
    Observation,
    PartitionObservation,
    TimedOffset,
    TopicObservation,
    merge_gaps,
)
from tideline.model.offsets import Intervals, OffsetRange, TopicPartition

NO_TIME = -1
RECORD, OPEN, MARKER, ABORTED, HOLE = "record", "open", "marker", "aborted", "hole"


class Entry(NamedTuple):
    """What stands at one offset.

    Args:
        kind: A record; one of an open or an aborted transaction; a marker; a hole.
        serial: Names the record in the whole world, whatever offset it gets; 0 for none.
        written_at: In milliseconds.
        producer: Of the transaction; 0 for none.
        is_broken: Brokers serve it, and Spark cannot read it.
    """

    kind: str
    serial: int = 0
    written_at: int = 0
    producer: int = 0
    is_broken: bool = False


@dataclass
class Log:
    """One partition's log; `entries[n]` stands at offset n, also below the log start."""

    entries: list[Entry] = field(default_factory=list)
    log_start: int = 0
    epochs: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])
    has_leader: bool = True

    @property
    def end(self) -> int:
        """The high watermark."""
        return len(self.entries)

    @property
    def stable_end(self) -> int:
        """The last stable offset."""
        for offset in range(self.log_start, self.end):
            if self.entries[offset].kind == OPEN:
                return offset
        return self.end

    @property
    def epoch(self) -> int:
        """The leader epoch."""
        return self.epochs[-1][0]

    def elect(self, at: int) -> None:
        """A new leader, whose log ends at an offset; below the end it is an unclean election."""
        del self.entries[at:]
        kept = [(epoch, start) for epoch, start in self.epochs if start < at] or self.epochs[:1]
        self.epochs = [*kept, (self.epoch + 1, at)]

    def epoch_end(self, epoch: int) -> int:
        """OffsetsForLeaderEpoch, as LeaderEpochFileCache.endOffsetFor answers."""
        if epoch == self.epoch:
            return self.end
        later = [start for known, start in self.epochs if known > epoch]
        return later[0] if later else UNDEFINED_EPOCH_END

    def end_transaction(self, producer: int, commit: bool, now: int) -> None:
        """Commit or abort what a producer has open, and write the marker."""
        final = RECORD if commit else ABORTED
        self.entries = [
            e._replace(kind=final) if (e.kind, e.producer) == (OPEN, producer) else e
            for e in self.entries
        ]
        self.entries.append(Entry(MARKER, 0, now, producer))


@dataclass
class Topic:
    """One incarnation of a topic.

    Args:
        topic_id: Its id.
        logs: One per partition.
        config: Kafka's own properties of topics, those that are not the default.
    """

    topic_id: str
    logs: list[Log]
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Cluster:
    """One cluster: its topics, and the moods in which its brokers answer.

    Args:
        cluster_id: The cluster's id.
        topics: By name.
        refused: Topics that the client may not describe.
        moods: What the next looks meet, one each: see `SimulatedKafka.observe`.
        groups: Committed offsets by group, with the topic's id.
        hides_empty_epochs: Whether the leader of an empty log reports no epoch, as older brokers.
        hidden: What brokers do not tell at all: `epochs`, topic `ids`, or `times` of new records.
    """

    cluster_id: str
    topics: dict[str, Topic] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    moods: list[str] = field(default_factory=list)
    groups: dict[str, dict[TopicPartition, tuple[str, int]]] = field(default_factory=dict)
    hides_empty_epochs: bool = False
    hidden: set[str] = field(default_factory=set)


class SimulatedKafka:
    """`KafkaPort` on a cluster.

    Args:
        cluster: Which one, asked at every call: a connection may lead elsewhere by then.
        tick: Called before and after each look, with a label.
        now: The time.
    """

    def __init__(
        self,
        cluster: Callable[[], Cluster],
        tick: Callable[[str], None] = lambda label: None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._cluster = cluster
        self._tick = tick
        self._now = now

    def topics_matching(self, pattern: str) -> list[str]:
        """Names, without those that the client may not see."""
        self._tick("kafka.topics")
        cluster = self._cluster()
        seen = set(cluster.topics) - cluster.refused
        return sorted(name for name in seen if re.fullmatch(pattern, name))

    def observe(self, topics: Iterable[str], epochs: Mapping[TopicPartition, int]) -> Observation:
        """One look. A mood spoils it: `away`, `absent`, `fault`, `lagging`, `stale`."""
        self._tick("kafka.observe<")
        cluster = self._cluster()
        mood = cluster.moods.pop(0) if cluster.moods else ""
        if mood == "away":
            raise ServiceAway("no broker answers")
        seen = tuple(self._topic(cluster, name, epochs, mood) for name in sorted(set(topics)))
        observation = Observation(self._now(), cluster.cluster_id, seen)
        self._tick("kafka.observe>")
        return observation

    def _topic(
        self, cluster: Cluster, name: str, epochs: Mapping[TopicPartition, int], mood: str
    ) -> TopicObservation:
        topic = cluster.topics.get(name)
        if topic is None or mood == "absent":
            return TopicObservation(name, None)
        if name in cluster.refused:
            return TopicObservation(name, None, refusal="TOPIC_AUTHORIZATION_FAILED")
        seen = tuple(
            _partition(
                number,
                log,
                epochs.get(TopicPartition(name, number)),
                mood if log.has_leader else "fault",
            )
            for number, log in enumerate(topic.logs)
        )
        if "ids" in cluster.hidden:
            raise TopicIdMissing(f"topic {name}: the cluster gives it no id")
        if "epochs" in cluster.hidden:
            seen = tuple(_without_epoch(p) for p in seen)
        elif cluster.hides_empty_epochs:
            seen = tuple(
                p if log.entries else replace(p, leader_epoch=None)
                for p, log in zip(seen, topic.logs, strict=True)
            )
        return TopicObservation(name, topic.topic_id, seen)

    def offsets_at(
        self, instant: datetime, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """The first record or marker that is not older."""
        self._tick("kafka.offsets_at")
        wanted = -(-instant.timestamp() * 1000 // 1)
        found: dict[TopicPartition, TimedOffset | None] = {}
        for place in partitions:
            log = self._log(place)
            found[place] = next(
                (
                    TimedOffset(offset, log.entries[offset].written_at)
                    for offset in range(log.log_start, log.end)
                    if log.entries[offset].kind != HOLE and log.entries[offset].written_at >= wanted
                ),
                None,
            )
        return found

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """What `commit_group` was told about the topics that are there now."""
        known = self._cluster().groups.get(group, {})
        found: dict[TopicPartition, int | None] = {}
        for place in partitions:
            topic_id, offset = known.get(place, ("", 0))
            topic = self._cluster().topics.get(place.topic)
            found[place] = offset if topic is not None and topic.topic_id == topic_id else None
        return found

    def examine(
        self, missing: Mapping[TopicPartition, Intervals], isolation_level: str
    ) -> dict[TopicPartition, tuple[Gap, ...]]:
        """Why offsets have no row."""
        self._tick("kafka.examine<")
        found = {
            place: merge_gaps(
                Gap(OffsetRange(offset, offset + 1), self._reason(place, offset, isolation_level))
                for interval in intervals
                for offset in range(interval.start_offset, interval.end_offset)
            )
            for place, intervals in missing.items()
        }
        self._tick("kafka.examine>")
        return found

    def _reason(self, place: TopicPartition, offset: int, isolation_level: str) -> GapReason:
        if place.topic in self._cluster().refused:
            raise Halted(f"{place}: TOPIC_AUTHORIZATION_FAILED")
        log = self._log(place)
        if offset < log.log_start:
            return "expired"
        committed = isolation_level == "read_committed"
        if offset >= (log.stable_end if committed else log.end):
            raise ServiceAway(f"{place}: offset {offset} is not served yet")
        kind = log.entries[offset].kind
        if kind == MARKER:
            return "marker"
        if kind == HOLE:
            return "hole"
        return "aborted" if kind == ABORTED and committed else "record"

    def written_at(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, datetime | None]:
        """When the record at an offset was written, where it is known."""
        found: dict[TopicPartition, datetime | None] = {}
        for place, offset in offsets.items():
            topic = self._cluster().topics.get(place.topic)
            known = topic is not None and place.partition < len(topic.logs)
            log = topic.logs[place.partition] if topic is not None and known else None
            inside = log is not None and log.log_start <= offset < log.end
            time = log.entries[offset].written_at if log is not None and inside else NO_TIME
            found[place] = None if time == NO_TIME else datetime.fromtimestamp(time / 1000, UTC)
        return found

    def retention_ms(self, topics: Iterable[str]) -> dict[str, int | None]:
        """What topics are set to; nothing by default. Events delete, not time."""
        kept: dict[str, int | None] = {}
        for name in topics:
            config = self._config(name)
            kept_ms = int(config.get("retention.ms", -1)) if config is not None else -1
            deletes = config is not None and "delete" in config.get("cleanup.policy", "delete")
            kept[name] = kept_ms if deletes and kept_ms >= 0 else None
        return kept

    def delete_retention_ms(self, topics: Iterable[str]) -> dict[str, int]:
        """Of those that are set to compaction."""
        configs = {name: self._config(name) or {} for name in topics}
        return {
            name: int(config.get("delete.retention.ms", 86_400_000))
            for name, config in configs.items()
            if "compact" in config.get("cleanup.policy", "")
        }

    def compacted(self, topics: Iterable[str]) -> set[str]:
        """Those that are set to it, and those that nobody can ask."""
        policies = {
            name: "compact" if config is None else config.get("cleanup.policy", "")
            for name in topics
            for config in [self._config(name)]
        }
        return {name for name, policy in policies.items() if "compact" in policy}

    def _config(self, name: str) -> Mapping[str, str] | None:
        cluster = self._cluster()
        topic = cluster.topics.get(name)
        return None if topic is None or name in cluster.refused else topic.config

    def commit_group(self, group: str, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Remember a group's offsets, of partitions that are there."""
        self._tick("kafka.commit_group")
        known = self._cluster().groups.setdefault(group, {})
        refused = []
        for place, offset in next_offsets.items():
            topic = self._cluster().topics.get(place.topic)
            if topic is None or place.partition >= len(topic.logs):
                refused.append(str(place))
            else:
                known[place] = (topic.topic_id, offset)
        if refused:
            raise ServiceAway(f"group {group}: the brokers did not commit {refused}")

    def _log(self, place: TopicPartition) -> Log:
        topic = self._cluster().topics.get(place.topic)
        if topic is None or place.partition >= len(topic.logs):
            raise ServiceAway(f"{place}: UNKNOWN_TOPIC_OR_PARTITION")
        return topic.logs[place.partition]


def _without_epoch(seen: PartitionObservation) -> PartitionObservation:
    """As the adapter has it: an empty log may do without, another one's leader may not."""
    if seen.log_start_offset == seen.high_watermark:
        return replace(seen, leader_epoch=None)
    return PartitionObservation(seen.partition, refusal="its leader tells no leader epoch")


def _partition(number: int, log: Log, asked: int | None, mood: str) -> PartitionObservation:
    if mood == "fault":
        return PartitionObservation(number, fault="LEADER_NOT_AVAILABLE")
    start, end, stable, epoch = log.log_start, log.end, log.stable_end, log.epoch
    epoch_end = None if asked is None else log.epoch_end(asked)
    if mood == "lagging":  # a new leader that does not know yet how far the others are
        end = max(log.log_start, end - 3)
        stable = min(stable, end)
    if mood == "stale" and epoch > 0:  # an old leader that nobody has told, with what it had then
        epoch -= 1
        end = min(end, log.epochs[-1][1])
        stable, start = min(stable, end), min(start, end)
        epoch_end = UNDEFINED_EPOCH_END if asked is not None and asked > epoch else epoch_end
    return PartitionObservation(
        number,
        leader_epoch=epoch,
        log_start_offset=start,
        high_watermark=end,
        last_stable_offset=stable,
        epoch_end_offset=epoch_end,
    )
