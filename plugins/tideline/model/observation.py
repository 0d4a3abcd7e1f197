"""What was seen of cluster, log and table at one time, as plain facts without a verdict.

First why an offset has no row; then the answers about topics and the table that a plan depends on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from tideline.model.offsets import OffsetRange, TopicPartition, checked_topic_id

GapReason = Literal[
    "marker",
    "aborted",
    "transactional",
    "compacted",
    "accepted",
    "erased",
    "hole",
    "compacted_batch",
    "record",
    "expired",
    "refused",
]
ADMITTED: frozenset[GapReason] = frozenset(
    {"marker", "aborted", "transactional", "compacted", "accepted", "erased"}
)
"""Reasons that explain a missing offset: two by evidence in the log, two by the stream file's
`gaps`, `accepted` by a decision, and `erased` by key."""
REASONS: dict[GapReason, str] = {
    "marker": "a commit or abort marker",
    "aborted": "a record of an aborted transaction",
    "transactional": "admitted by gaps: transactional",
    "compacted": "admitted by gaps: compacted",
    "accepted": "a decision accepted the loss",
    "erased": "it was erased by key",
    "hole": "no batch of the log covers it",
    "compacted_batch": "its batch has lost records, as in a compacted log",
    "record": "the log holds a record there",
    "expired": "the log starts later now: it can no longer be read",
    "refused": "gaps: refuse admits none",
}


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets without a row, and the reason."""

    offsets: OffsetRange
    reason: GapReason


def merge_gaps(gaps: Iterable[Gap]) -> tuple[Gap, ...]:
    """The gaps sorted by offset, adjacent ones with the same reason joined, empty ones dropped."""
    merged: list[Gap] = []
    for gap in sorted(gaps, key=lambda g: g.offsets):
        last = merged[-1] if merged else None
        start, end = gap.offsets.start_offset, gap.offsets.end_offset
        if last and (last.reason, last.offsets.end_offset) == (gap.reason, start):
            merged[-1] = Gap(OffsetRange(last.offsets.start_offset, end), gap.reason)
        elif len(gap.offsets):
            merged.append(gap)
    return tuple(merged)


UNDEFINED_EPOCH_END = -1
"""OffsetsForLeaderEpoch's answer when the broker does not know the epoch (KIP-320)."""


@dataclass(frozen=True, slots=True)
class PartitionObservation:
    """One partition as its leader described it.

    Args:
        partition: Partition number.
        leader_epoch: Epoch in the ListOffsets response for the end (KIP-320); None if the response
            has none, as for an empty log.
        log_start_offset: Oldest readable offset (inclusive); None if unknown.
        high_watermark: Last replicated offset + 1 (exclusive end); None if unknown.
        last_stable_offset: First offset of the oldest open transaction, otherwise the high
            watermark (exclusive end); None if unknown.
        epoch_end_offset: End offset (exclusive) of the epoch that was asked for (KIP-101);
            `UNDEFINED_EPOCH_END` if the leader does not know that epoch, None if not asked.
        fault: A transient error of this partition; a later observation may succeed.
        refusal: Any other error; a later observation fails in the same way.
    """

    partition: int
    leader_epoch: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    epoch_end_offset: int | None = None
    fault: str | None = None
    refusal: str | None = None

    @property
    def answered(self) -> bool:
        """Whether all three offsets are known."""
        return (
            self.fault is None
            and self.refusal is None
            and self.log_start_offset is not None
            and self.high_watermark is not None
            and self.last_stable_offset is not None
        )

    def end_offset(self, isolation_level: str) -> int | None:
        """The end (exclusive) of what a reader with that isolation level can read."""
        if isolation_level == "read_committed":
            return self.last_stable_offset
        return self.high_watermark


@dataclass(frozen=True, slots=True)
class TimedOffset:
    """The answer to a look-up by time: the record's offset, and its timestamp in milliseconds."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TopicObservation:
    """One topic as the brokers described it.

    Args:
        topic: Topic name.
        topic_id: The topic's UUID; None if there is no such topic, or with a fault or refusal.
        partitions: In the order of their numbers; empty without a topic id.
        fault: A transient error of this topic; a later observation may succeed.
        refusal: Any other error; a later observation fails in the same way.

    Raises:
        ValueError: The topic id is no UUID, or zero.
    """

    topic: str
    topic_id: str | None
    partitions: tuple[PartitionObservation, ...] = ()
    fault: str | None = None
    refusal: str | None = None

    def __post_init__(self) -> None:
        if self.topic_id is not None:
            checked_topic_id(self.topic_id)

    @property
    def answered(self) -> bool:
        """Whether the topic exists and the offsets of every partition are known."""
        return self.topic_id is not None and all(p.answered for p in self.partitions)

    @property
    def is_absent(self) -> bool:
        """Whether the brokers say that there is no such topic."""
        return self.topic_id is None and self.fault is None and self.refusal is None

    def partition(self, number: int) -> PartitionObservation | None:
        """The partition with that number; None if the topic does not have it."""
        # by its place first: a topic of ten thousand partitions is looked up for each of them
        if number < len(self.partitions) and self.partitions[number].partition == number:
            return self.partitions[number]
        return next((p for p in self.partitions if p.partition == number), None)


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """One commit in the table's log, reduced to what the check for foreign changes needs.

    Args:
        version: The version that the commit made.
        operation: Delta's name of the operation, for example `WRITE` or `DELETE`; for people.
        removes_rows: Whether its actions take rows out of the table. Of a commit of this ledger it
            is not looked up, and false.
        ledger_id: The ledger in the commit metadata; None for a commit of another program.
        detail: Parameters of the operation, for people.
        commit_id, token: Whose plan or removal it is, and of which attempt, in the commit metadata;
            None for a commit of another program.
    """

    version: int
    operation: str
    removes_rows: bool
    ledger_id: str | None
    detail: str
    commit_id: str | None = None
    token: int | None = None


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """A column that is not as Tideline creates it, in a way that matters to a writer.

    Args:
        column: Its name.
        change: What is different. A further column that may be null is none of these.
    """

    column: str
    change: Literal["missing", "type", "required", "generated", "identity", "invariant"]


@dataclass(frozen=True, slots=True)
class TableProperty:
    """One property of the table, as the log stores it."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class TableObservation:
    """The target table as its transaction log describes it.

    Args:
        exists: Whether there is a Delta table at the address; if not, the rest is empty.
        table_id: Delta's id of the table; a re-created table has another one.
        version: Newest version.
        stream: Stream name in the table's properties; None if Tideline did not create it.
        ledger_id: Ledger id in the table's properties; None if Tideline did not create it.
        newer: Commits after the version that was asked about, oldest first.
        partition_by: The partition columns, if data files can be added without Delta's writer.
            None if the table has columns, features or constraints that need Delta's writer.
        features: Names of the table features in Delta's protocol. An older protocol, which has
            numbers instead, counts as the features that its writer version stands for.
        properties: The table's properties whose names begin with `delta.`.
        columns: Columns that differ from those that Tideline creates.
        token: Newest fencing token that the table has recorded for that ledger; None without one.
        layout: Of a current table: what is fixed since it was created, as JSON; None for another.
        unreadable: Why the table cannot be read at all: a feature that delta-rs lacks, no columns,
            a broken log. The rest is empty then. None where it can.
    """

    exists: bool
    table_id: str | None = None
    version: int | None = None
    stream: str | None = None
    ledger_id: str | None = None
    newer: tuple[LoggedCommit, ...] = ()
    partition_by: tuple[str, ...] | None = None
    features: tuple[str, ...] = ()
    properties: tuple[TableProperty, ...] = ()
    columns: tuple[ColumnChange, ...] = ()
    token: int | None = None
    unreadable: str | None = None
    layout: str | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """Everything that a plan depends on, observed once.

    Topic ids were read before and after the offsets. A topic whose id changed in between has a
    fault and no offsets.

    Args:
        observed_at: When, UTC-aware.
        cluster_id: The cluster's id.
        topics: The topics that were asked about.
        table: The target table; its default means that there is none.
    """

    observed_at: datetime
    cluster_id: str
    topics: tuple[TopicObservation, ...]
    table: TableObservation = field(default=TableObservation(exists=False))

    def topic(self, name: str) -> TopicObservation | None:
        """The topic with that name; None if it was not asked about."""
        return next((t for t in self.topics if t.topic == name), None)

    def partition(self, at: TopicPartition) -> PartitionObservation | None:
        """That partition; None if its topic was not asked about or does not have it."""
        topic = self.topic(at.topic)
        return None if topic is None else topic.partition(at.partition)


ByPartition = Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Ends:
    """Where partitions end, and where what is young enough begins; by topic, then by number.

    Args:
        ends: The end that a stream may read to, exclusive.
        young: By age in seconds: the first record that is not older, its end where all are older.
        ids: Topic ids.
    """

    ends: Mapping[str, ByPartition]
    young: Mapping[int, Mapping[str, ByPartition]]
    ids: Mapping[str, str] = field(default_factory=dict)
