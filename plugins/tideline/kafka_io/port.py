"""What the pipeline needs of Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol

from tideline.model.coverage import Intervals
from tideline.model.gaps import Gap
from tideline.model.observation import Observation, TimedOffset
from tideline.model.offsets import TopicPartition


class KafkaPort(Protocol):
    """Offsets, ids and epochs of one cluster; see `adapters.kafka_client`."""

    def topics_matching(self, pattern: str) -> list[str]:
        """Topic names that the whole pattern matches."""

    def observe(self, topics: Iterable[str], epochs: Mapping[TopicPartition, int]) -> Observation:
        """One look at the named topics, with end offsets of the given epochs."""

    def offsets_at(
        self, instant: datetime, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """First record at or after an instant; None where there is none."""

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """Next offsets that a group has committed; None where it has not."""

    def examine(
        self, missing: Mapping[TopicPartition, Intervals], isolation_level: str
    ) -> dict[TopicPartition, tuple[Gap, ...]]:
        """Why offsets have no row, from the batches that the log holds there."""

    def written_at(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, datetime | None]:
        """When the first record at or after an offset was written; None where unknown."""

    def retention_ms(self, topics: Iterable[str]) -> dict[str, int | None]:
        """The time after which topics delete records; None where time deletes nothing."""

    def compacted(self, topics: Iterable[str]) -> set[str]:
        """Those topics whose log may have lost records to compaction."""

    def commit_group(self, group: str, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Tell a group its next offsets."""
