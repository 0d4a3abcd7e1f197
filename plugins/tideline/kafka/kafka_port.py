"""The Kafka client that the pipeline needs, as a protocol; `kafka_cluster` implements it.

Shapes:

    TopicPartition         topic name and partition number; key of every mapping here
    Observation            one reading of the cluster: cluster id, topic ids, offsets, epochs
    TimedOffset            an offset and the timestamp of the record there
    Gap                    offsets [start, end) without a row, and the reason

Every offset is the offset of a record or the end of a range. Ends are exclusive, as the high
watermark and the last stable offset are in Kafka's own answers.

Errors that every method raises:

    ServiceAway     The brokers are unreachable or answer with a transient error. The client tries
                    again first, for the `patience_seconds` of its settings. Any other broker error
                    counts as transient too, unless it is one of those under AccessRefused.
    AccessRefused   The brokers refuse: a wrong login, a certificate, another protocol, a missing
                    right, or a version that they do not speak. There is no second try.
    TopicIdMissing  `observe` only: the cluster gives a topic no id, or two the same (KIP-516).

`observe` is the exception. An error of one topic or one partition is not raised: the observation
holds it, as a `fault` (transient) or a `refusal` (anything else).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol

from tideline.model.observation import Gap, Observation, TimedOffset
from tideline.model.offsets import Intervals, TopicPartition


class KafkaPort(Protocol):
    """Offsets, topic ids, epochs and topic settings of one cluster."""

    def topics_matching(self, pattern: str) -> list[str]:
        """The names of the topics that match a pattern.

        A topic that the client may not describe is not listed: brokers hide it. So absence from
        this list proves nothing. Ask `observe` about every topic that is known by name.

        Args:
            pattern: Regular expression of Python's `re`; it has to match the whole name.

        Returns:
            Names in alphabetical order, without Kafka's internal topics; empty if none matches.
        """

    def observe(self, topics: Iterable[str], epochs: Mapping[TopicPartition, int]) -> Observation:
        """Read the state of every partition of the named topics, once.

        Topic ids are read before and after the offsets, from two brokers if there are two. A topic
        whose id differs between the two has a fault.

        Edge cases, each reported per topic or per partition:

        - Topic without an id, on clusters older than Kafka 2.8: TopicIdMissing is raised.
        - Unknown topic: `topic_id` is None, without fault or refusal; `is_absent` is true.
        - Missing rights on a topic: `refusal` of the topic, no partitions.
        - Partition without a leader: `fault` of the partition, no offsets.
        - Empty log: `log_start_offset` equals `high_watermark`; both may be above 0.
        - Leader that reports no epoch (-1) for an empty log: `leader_epoch` is None. With records:
          `refusal` of the partition.
        - Open transaction: `last_stable_offset` is below `high_watermark`.
        - Epoch that the leader does not know: `epoch_end_offset` is `UNDEFINED_EPOCH_END`, -1.
        - Epoch that was not asked for: `epoch_end_offset` is None.

        Args:
            topics: Topic names; order and repetition do not matter. Without any, the observation
                holds the cluster id only.
            epochs: Leader epochs whose end offset (exclusive) is wanted, at most one for each
                partition. Partitions of other topics are ignored.

        Returns:
            An observation with one entry per distinct name, sorted by name, partitions by number.
            Its `table` is not filled in.
        """

    def offsets_at(
        self, instant: datetime, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, TimedOffset | None]:
        """The first record of each partition, by offset, that is not older than an instant.

        Kafka compares milliseconds: an instant between two of them is rounded up. The record may
        belong to an open or aborted transaction, or be a marker (ListOffsets, read_uncommitted).

        Args:
            instant: UTC-aware; inclusive.

        Returns:
            One entry per partition. None if every record is older, or the log is empty (Kafka
            says -1).

        Raises:
            ServiceAway: Also for an unknown topic, an unknown partition or one without a leader.
        """

    def committed_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int | None]:
        """The next offsets that a consumer group has committed.

        Args:
            group: Group id. An unknown group has committed nothing.

        Returns:
            One entry per partition: the next offset to read. None if the group has committed none
            there (Kafka says -1), also for an unknown topic, and for one that was created again
            since. An offset may lie outside of the log.
        """

    def examine(
        self, missing: Mapping[TopicPartition, Intervals], isolation_level: str
    ) -> dict[TopicPartition, tuple[Gap, ...]]:
        """Why offsets have no row, as far as the batches of the log show it.

        Batch headers are read, records are not. Reasons are `marker`, `aborted` (only with
        read_committed), `hole`, `compacted_batch`, `record` and `expired`.

        Edge cases:

        - Offsets below the log start: `expired`; nothing is left to read there.
        - Message sets older than record batches (KIP-98): they count as no batch, so `hole`.

        Args:
            missing: Offsets in question, as half-open ranges, sorted and disjoint.
            isolation_level: `read_committed` or `read_uncommitted`, as the reader used it.

        Returns:
            One entry per partition that was asked about. Its gaps are sorted and hold every
            missing offset exactly once; empty if none was missing.

        Raises:
            ServiceAway: Also if a partition has no leader, the topic is unknown, or the leader does
                not serve these offsets yet: they are at or past the high watermark, or, with
                read_committed, at or past the first offset of an open transaction.
        """

    def written_at(
        self, offsets: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, datetime | None]:
        """When the record at an offset was written, or the next one after it.

        The time is that of the first record in the same batch: a lower bound.

        Args:
            offsets: One offset per partition. Nothing is sent if there are none.

        Returns:
            One entry per partition, UTC-aware. None if unknown: no leader, an error of that
            partition, an offset outside of the log, or a record without a timestamp (-1).
        """

    def retention_ms(self, topics: Iterable[str]) -> dict[str, int | None]:
        """How long topics keep records, in milliseconds.

        Returns:
            One entry per topic. None if time deletes nothing (`retention.ms` is -1, or
            `cleanup.policy` lacks `delete`). None also if the configuration is not known: the topic
            does not exist, or the client may not read its configuration.
        """

    def delete_retention_ms(self, topics: Iterable[str]) -> dict[str, int]:
        """How long compacted topics keep tombstones once they are cleaned, in milliseconds.

        Returns:
            One entry per topic whose `cleanup.policy` contains `compact`; none where the
            configuration is not known.
        """

    def compacted(self, topics: Iterable[str]) -> set[str]:
        """The topics among these whose log may have lost records to compaction.

        Returns:
            Those whose `cleanup.policy` contains `compact` now, and those whose configuration is
            not known: nothing proves that their logs are complete.
        """

    def commit_group(self, group: str, next_offsets: Mapping[TopicPartition, int]) -> None:
        """Commit a consumer group's offsets, for tools that show lag.

        Tideline never reads them back as its own position.

        Args:
            group: Group id; created if it does not exist.

        Raises:
            ServiceAway: Also if the brokers reject some or all offsets, for example because the
                group has running members, or a partition is unknown. The other offsets are
                committed.
        """
