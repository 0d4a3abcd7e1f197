"""What one look at the cluster and the table has found, as plain facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

UNDEFINED_EPOCH_END = -1
"""OffsetsForLeaderEpoch's answer when the broker does not know the epoch (KIP-320)."""


@dataclass(frozen=True, slots=True)
class PartitionObservation:
    """One partition as its leader described it.

    Args:
        partition: Partition number.
        leader_epoch: Epoch that came with the ListOffsets answer for the end; None if unknown.
        log_start_offset: Oldest readable offset; None if the leader did not say.
        high_watermark: Last replicated offset + 1.
        last_stable_offset: First offset of the oldest open transaction, else the high watermark.
        epoch_end_offset: End offset of the epoch that was asked for (exclusive);
            `UNDEFINED_EPOCH_END` if the leader does not know that epoch, None if not asked.
        fault: A passing error of this partition; another look may find it gone.
        refusal: Any other error; looking again will not help.
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
        """Whether the leader gave every offset that was asked for."""
        return (
            self.fault is None
            and self.refusal is None
            and self.log_start_offset is not None
            and self.high_watermark is not None
            and self.last_stable_offset is not None
        )

    def end_offset(self, isolation_level: str) -> int | None:
        """Where a reader of that isolation level may stop (exclusive)."""
        if isolation_level == "read_committed":
            return self.last_stable_offset
        return self.high_watermark


@dataclass(frozen=True, slots=True)
class TimedOffset:
    """A look-up by time: the record that was found, with its own timestamp in milliseconds."""

    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class TopicObservation:
    """One topic; `topic_id` is None when the cluster says that there is no such topic."""

    topic: str
    topic_id: str | None
    partitions: tuple[PartitionObservation, ...] = ()
    fault: str | None = None
    refusal: str | None = None

    @property
    def answered(self) -> bool:
        """Whether the topic exists and every partition gave its offsets."""
        return self.topic_id is not None and all(p.answered for p in self.partitions)

    @property
    def is_absent(self) -> bool:
        """Whether the cluster says that there is no such topic."""
        return self.topic_id is None and self.fault is None and self.refusal is None

    def partition(self, number: int) -> PartitionObservation | None:
        """The partition with that number, None if the topic has none."""
        if number < len(self.partitions) and self.partitions[number].partition == number:
            return self.partitions[number]
        return next((p for p in self.partitions if p.partition == number), None)


@dataclass(frozen=True, slots=True)
class LoggedCommit:
    """One commit to the table, as far as watching it needs.

    Args:
        operation: Delta's name of it.
        appends: Whether it only added rows.
        ledger_id: The ledger whose mark it carries; None for somebody else's.
        detail: Its parameters, for people.
    """

    version: int
    operation: str
    appends: bool
    ledger_id: str | None
    detail: str


@dataclass(frozen=True, slots=True)
class TableObservation:
    """The target table as its transaction log describes it.

    Args:
        exists: Whether there is a Delta table at the address.
        table_id: Delta's own id of the table, new with every re-creation.
        version: Newest committed version.
        stream: Name of the stream that created it; None if Tideline did not.
        ledger_id: The ledger that it belongs to.
        newer: Commits after the version that was asked about, oldest first.
        partition_by: Its partition columns, if it takes data files as they are; None where
            columns, features or constraints that others gave it need Delta's own writer.
    """

    exists: bool
    table_id: str | None = None
    version: int | None = None
    stream: str | None = None
    ledger_id: str | None = None
    newer: tuple[LoggedCommit, ...] = ()
    partition_by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at everything that a plan depends on.

    Topic ids were the same before and after the offsets were asked for; a topic where they
    were not carries a fault instead.
    """

    observed_at: datetime
    cluster_id: str
    topics: tuple[TopicObservation, ...]
    table: TableObservation = field(default=TableObservation(exists=False))

    def topic(self, name: str) -> TopicObservation | None:
        """The topic of that name, None if it was not asked for."""
        return next((t for t in self.topics if t.topic == name), None)
