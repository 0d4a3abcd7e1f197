"""From a window or requested ranges to the ranges that a backfill reads.

find_window_boundary, in_order     the offset of an instant, looked up once (R11)
asked_by_window, asked_by_ranges   the offsets that are wanted, per partition
plan_backfill                      the ranges that Kafka still has, and what is gone
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from tideline.errors import BadInput, ServiceAway, WindowUnavailable
from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Finding
from tideline.model.observation import Observation, PartitionObservation, TimedOffset
from tideline.model.offsets import (
    Intervals,
    PlannedRange,
    TopicPartition,
    one_interval,
    subtract,
    union,
)
from tideline.model.plan import BatchProposal, Gone
from tideline.model.request import (
    RequestedRange,
    ResolvedTimestamp,
    RunRequest,
    WindowBoundary,
    utc_text,
)
from tideline.model.wording import first_few
from tideline.rules.planning import by_generation, make_proposal, readable_range
from tideline.rules.reset_detection import is_cut

CLOCKS_APART = timedelta(minutes=5)
"""A producer's clock may be ahead of ours by so much: a record of that time says as much about the
order of the log as any other. What is later than that is a time of another kind."""


def find_window_boundary(
    at: datetime,
    position: PartitionPosition,
    seen: PartitionObservation,
    found: TimedOffset | None,
    now: datetime,
) -> WindowBoundary:
    """The offset of an instant in one partition.

    Args:
        at: UTC-aware; not later than now.
        seen: Observed **before** the look-up, so that its end is not past records that the look-up
            did not see.
        found: The answer of the look-up; None if every record is older than the instant.
        now: UTC-aware.

    Raises:
        WindowUnavailable: The timestamp of the record is far in the future. Later offsets may hold
            records of any time, so the look-up proves nothing.
    """
    assert seen.log_start_offset is not None
    assert seen.high_watermark is not None
    start, end = seen.log_start_offset, seen.high_watermark
    if found is None:
        # an empty log that has lost unread records: the instant may have been among them
        unread = position.next_offset < start
        return WindowBoundary(
            position.topic, position.identity, end, expired=end == start > 0 and unread
        )
    if found.timestamp_ms > (now + CLOCKS_APART).timestamp() * 1000:
        raise WindowUnavailable(
            f"{position}: the first record at or after {utc_text(at)}, at offset {found.offset},"
            f" has timestamp {_when(found.timestamp_ms)}, in the future: this log is not in time"
            f" order. Request offsets instead, for example"
            f' ranges=[{{"topic": "{position.topic}", "partition": {position.partition},'
            f' "start_offset": {start}, "end_offset": {end}}}]',
            partition=str(position),
            offset=found.offset,
            timestamp_ms=found.timestamp_ms,
        )
    return WindowBoundary(
        position.topic, position.identity, found.offset, expired=0 < start >= found.offset
    )


def between_boundaries(
    boundary: WindowBoundary, at: datetime, known: Iterable[ResolvedTimestamp], start: int
) -> WindowBoundary:
    """The boundary, not lower than that of an earlier instant, not higher than that of a later one.

    Windows tile only if boundaries are in the order of their instants. Without this, retention or a
    log that is not in time order could change their order.

    Args:
        known: Every instant that is resolved already.
        start: Log start (inclusive) observed before the look-up.
    """
    earlier, later = [boundary.offset], [boundary.offset]
    for instant in known:
        other = instant.of(boundary.identity)
        if other is not None and instant.at != at:
            (earlier if instant.at < at else later).append(other.offset)
    offset = min(max(earlier), min(later))
    if offset == boundary.offset:
        return boundary
    return replace(boundary, offset=offset, expired=boundary.expired or offset < start)


def _when(timestamp_ms: int) -> str:
    try:
        return utc_text(datetime.fromtimestamp(timestamp_ms / 1000, UTC))
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"


@dataclass(frozen=True, slots=True)
class AskedOffsets:
    """Offsets `[start_offset, end_offset)` of one partition that a backfill requests.

    Args:
        uncertain: The true start is unknown and may be lower: the log already began at or after
            this offset when the window's start was looked up.
    """

    start_offset: int
    end_offset: int
    uncertain: bool = False


def asked_by_window(
    positions: Iterable[PartitionPosition], first: ResolvedTimestamp, last: ResolvedTimestamp
) -> dict[TopicPartition, AskedOffsets]:
    """The offsets between two instants, per followed partition in which both are resolved."""
    requested = {}
    for position in positions:
        start, end = first.of(position.identity), last.of(position.identity)
        if start is not None and end is not None:
            requested[position.topic_partition] = AskedOffsets(
                start.offset, end.offset, start.expired
            )
    return requested


def asked_by_ranges(
    ranges: Iterable[RequestedRange], head: Head, observation: Observation, isolation_level: str
) -> dict[TopicPartition, AskedOffsets]:
    """The requested offsets, per partition.

    Args:
        ranges: At most one per partition.
        head: Its positions are the partitions that the stream follows.

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
    return {r.topic_partition: AskedOffsets(r.start_offset, r.end_offset) for r in ranges}


def plan_backfill(
    head: Head,
    observation: Observation,
    asked: Mapping[TopicPartition, AskedOffsets],
    isolation_level: str,
) -> BatchProposal:
    """What a backfill would read now, and which offsets Kafka no longer has.

    The stream's limits do not apply: a window is read as a whole, otherwise windows would not tile.
    A range is split where a generation begins. Below that offset the log is what it was, so its
    records belong to the older generation, in which they may stand already.
    Partitions that did not answer, or have another topic id, get no range; detection reports them.

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
        if topics[position.topic].topic_id != position.topic_id or is_cut(position, seen):
            continue  # detection reports it
        # a shorter range would leave a hole between this window and the next
        if planned is None or planned.end_offset < wanted.end_offset:
            end = seen.end_offset(isolation_level)
            raise ServiceAway(
                f"{position}: [{start}, {wanted.end_offset}) can be read up to {end} only: a"
                " transaction is open, or the leader's log is behind; run again later"
            )
        ranges += by_generation(replace(planned, end_offset=wanted.end_offset), generations)
    return make_proposal(head, observation, ranges, isolation_level, gone=gone)


def _gone(asked: AskedOffsets, log_start_offset: int, covered: Intervals) -> Intervals:
    # of an uncertain start nobody can tell: everything below the log start may have been meant
    lowest = 0 if asked.uncertain else asked.start_offset
    return subtract(one_interval(lowest, min(asked.end_offset, log_start_offset)), covered)


def findings_against(findings: Iterable[Finding], request: RunRequest) -> tuple[Finding, ...]:
    """The findings that concern a backfill: those about the logs that it reads.

    A retention loss of the live lane does not matter here. The proposal says which offsets of the
    backfill itself are gone. A window concerns every partition, ranges concern theirs.
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
