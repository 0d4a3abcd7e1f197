"""From a window or requested ranges to the ranges that a backfill reads. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tideline.errors import BadInput, ServiceAway
from tideline.model.coverage import Intervals, subtract, union
from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Finding, one_interval
from tideline.model.observation import Observation
from tideline.model.offsets import TopicPartition
from tideline.model.plan import BatchProposal, Gone, PlannedRange
from tideline.model.request import RequestedRange, RunRequest
from tideline.model.window import ResolvedTimestamp
from tideline.model.wording import first_few
from tideline.rules.planning import by_generation, readable_range


@dataclass(frozen=True, slots=True)
class Asked:
    """Offsets `[start_offset, end_offset)` of one partition that a backfill requests.

    Args:
        start_offset: First offset (inclusive).
        end_offset: End (exclusive).
        uncertain: The true start is unknown and may be lower: the log already began at or after
            this offset when the window's start was looked up.
    """

    start_offset: int
    end_offset: int
    uncertain: bool = False


def asked_by_window(
    positions: Iterable[PartitionPosition], first: ResolvedTimestamp, last: ResolvedTimestamp
) -> dict[TopicPartition, Asked]:
    """The offsets between two instants, per partition.

    Args:
        positions: The partitions that the stream follows.
        first: Start of the window (inclusive).
        last: End of the window (exclusive).

    Returns:
        One entry per partition in which both instants are resolved.
    """
    requested = {}
    for position in positions:
        start, end = first.of(position.identity), last.of(position.identity)
        if start is not None and end is not None:
            requested[position.topic_partition] = Asked(start.offset, end.offset, start.expired)
    return requested


def asked_by_ranges(
    ranges: Iterable[RequestedRange], head: Head, observation: Observation, isolation_level: str
) -> dict[TopicPartition, Asked]:
    """The requested offsets, per partition.

    Args:
        ranges: At most one per partition.
        head: Its positions are the partitions that the stream follows.
        observation: One observation of the cluster.
        isolation_level: `read_committed` stops at the last stable offset.

    Raises:
        BadInput: The stream does not follow a partition, or a range ends past what can be read.
    """
    followed = {p.topic_partition for p in head.positions}
    for asked in ranges:
        if asked.topic_partition not in followed:
            shown = first_few(sorted(followed), 20) or "none yet"
            aside = asked.topic in head.set_aside
            why = ": the stream file does not mean its topic any more; put it back" if aside else ""
            raise BadInput(
                f"ranges: {asked}: the stream does not follow this partition{why}; allowed: {shown}"
            )
        seen = observation.partition(asked.topic_partition)
        end = seen.end_offset(isolation_level) if seen is not None and seen.answered else None
        if end is not None and asked.end_offset > end:
            raise BadInput(
                f"ranges: {asked} ends past what can be read; allowed: an end of at most {end}"
            )
    return {r.topic_partition: Asked(r.start_offset, r.end_offset) for r in ranges}


def plan_backfill(
    head: Head,
    observation: Observation,
    asked: Mapping[TopicPartition, Asked],
    isolation_level: str,
) -> BatchProposal:
    """What a backfill would read now, and which offsets Kafka no longer has.

    The stream's limits do not apply: a window is read as a whole, otherwise windows would not tile.
    A range is split where a generation begins. Below that offset the log is what it was, so its
    records belong to the older generation, in which they may stand already.
    Partitions that did not answer, or have another topic id, get no range; detection reports them.

    Args:
        head: Its positions are the partitions that the stream follows; none of them moves.
        observation: One observation of the cluster.
        asked: Requested offsets per partition.
        isolation_level: `read_committed` stops at the last stable offset.

    Raises:
        ServiceAway: The requested end cannot be read yet: a transaction is open, or the leader's
            log does not reach it.
    """
    coverage, accepted_loss = head.landed, head.of_logs(head.accepted_loss)
    generations = head.generations
    topics = {t.topic: t for t in observation.topics}
    ranges: list[PlannedRange] = []
    gone: list[Gone] = []
    for position in sorted(head.positions, key=lambda p: p.topic_partition):
        wanted = asked.get(position.topic_partition)
        seen = observation.partition(position.topic_partition)
        if wanted is None or seen is None or not seen.answered:
            continue
        assert seen.log_start_offset is not None
        known = union(
            coverage.get(position.identity, ()),
            accepted_loss.get(position.identity, ()),  # a decision accepts a loss once
        )
        lost = _gone(wanted, seen.log_start_offset, known)
        if lost:
            gone.append(Gone(position.topic, position.partition, lost, wanted.uncertain))
        start = max(wanted.start_offset, seen.log_start_offset)
        if start >= wanted.end_offset:
            continue
        planned = readable_range(position, start, topics[position.topic], isolation_level)
        if planned is None and topics[position.topic].topic_id != position.topic_id:
            continue  # detection reports it
        if planned is None or planned.end_offset < wanted.end_offset:
            end = seen.end_offset(isolation_level)
            raise ServiceAway(
                f"{position}: [{start}, {wanted.end_offset}) can be read up to {end} only: a"
                " transaction is open, or the leader's log is behind; run again later"
            )
        ranges += by_generation(replace(planned, end_offset=wanted.end_offset), generations)
    records = sum(len(r.offsets) for r in ranges)
    size = head.bytes_per_record
    return BatchProposal(
        observation=observation,
        ranges=tuple(ranges),
        offset_lag=0,
        isolation_level=isolation_level,
        estimated_records=records,
        head_digest=head.digest,
        estimated_bytes=None if size is None else round(records * size),
        gone=tuple(gone),
    )


def findings_against(findings: Iterable[Finding], request: RunRequest) -> tuple[Finding, ...]:
    """The findings that concern a backfill: those about the logs that it reads.

    A retention loss of the live lane does not matter here. The proposal says which offsets of the
    backfill itself are gone.

    Args:
        findings: Everything that detection reports.
        request: A window concerns every partition, ranges concern theirs.
    """
    asked = [r.topic_partition for r in request.ranges]
    return tuple(
        f
        for f in findings
        if f.kind != "retention_loss" and (not asked or any(f.concerns(p) for p in asked))
    )


def is_about(head: Head, ranges: Iterable[PlannedRange]) -> bool:
    """Whether planned ranges belong to the logs that the head follows, each in its generation."""
    logs = head.logs
    return all(r.identity in logs and logs[r.identity].holds(r.offsets) for r in ranges)


def _gone(asked: Asked, log_start_offset: int, covered: Intervals) -> Intervals:
    lowest = 0 if asked.uncertain else asked.start_offset
    return subtract(one_interval(lowest, min(asked.end_offset, log_start_offset)), covered)
