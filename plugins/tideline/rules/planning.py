"""From head, observation and limits to the ranges of one live run, and what is told on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Notice
from tideline.model.observation import Observation, TopicObservation
from tideline.model.offsets import (
    Generations,
    OffsetRange,
    PlannedRange,
    TopicPartition,
    covered_until,
    subtract,
    total,
    uncovered_from,
)
from tideline.model.plan import BatchProposal, Gone
from tideline.stream.stream import Stream

HANGING_AFTER = timedelta(minutes=15)
"""Brokers abort a transaction after `transaction.max.timeout.ms`, by default 15 minutes (broker
configuration). An older one hangs: its coordinator has lost it (KIP-664)."""


def plan_live(
    head: Head,
    observation: Observation,
    stream: Stream,
    blocked: frozenset[TopicPartition] = frozenset(),
) -> BatchProposal:
    """What a live run of a stream would read now, by its isolation level and limits."""
    return plan_ranges(
        head,
        observation,
        isolation_level=stream.kafka.isolation_level,
        max_records_per_run=stream.limits.max_records_per_run,
        max_records_per_partition=stream.limits.max_records_per_partition,
        blocked=blocked,
    )


def plan_ranges(
    head: Head,
    observation: Observation,
    *,
    isolation_level: str,
    max_records_per_run: int,
    max_records_per_partition: int,
    blocked: frozenset[TopicPartition] = frozenset(),
) -> BatchProposal:
    """What a live run would read now.

    A partition that did not answer, or whose topic id is not the head's, gets no range; detection
    reports it. Offsets that a backfill has landed and verified are not read again (R12): a range
    begins after them, or ends before them.

    Args:
        max_records_per_run: Limit over all partitions, in offsets.
        max_records_per_partition: Limit for one partition, in offsets.
        blocked: Partitions that must not move because of an open incident.
    """
    coverage, generations = head.landed, head.generations
    topics = {t.topic: t for t in observation.topics}
    candidates: list[PlannedRange] = []
    later = 0
    for position in sorted(head.positions, key=lambda p: p.topic_partition):
        if position.topic_partition in blocked:
            continue
        covered = coverage.get(position.identity, ())
        start = covered_until(covered, position.next_offset)  # a backfill was there (R12)
        planned = readable_range(position, start, topics.get(position.topic), isolation_level)
        if planned is not None:
            end = uncovered_from(covered, start, planned.end_offset)
            # one generation at a time: the position has room for one
            first = by_generation(replace(planned, end_offset=end), generations)[0]
            if first.end_offset < planned.end_offset:  # what is behind it is read by later runs
                rest = [OffsetRange(first.end_offset, planned.end_offset)]
                later += total(subtract(rest, covered))
            candidates.append(first)
    available = [len(c.offsets) for c in candidates]
    wanted = [min(a, max_records_per_partition) for a in available]
    shares = share_fairly(wanted, max_records_per_run, turn=head.live_runs)
    ranges = tuple(
        _shortened(candidate, share)
        for candidate, share in zip(candidates, shares, strict=True)
        if share
    )
    lag = sum(available) - sum(shares) + later
    return make_proposal(head, observation, ranges, isolation_level, offset_lag=lag)


def make_proposal(
    head: Head,
    observation: Observation,
    ranges: Iterable[PlannedRange],
    isolation_level: str,
    *,
    offset_lag: int = 0,
    gone: Iterable[Gone] = (),
) -> BatchProposal:
    """A proposal to read ranges, with their size by what records of the last run took."""
    planned = tuple(ranges)
    records = sum(len(r.offsets) for r in planned)
    size = head.bytes_per_record
    return BatchProposal(
        observation=observation,
        ranges=planned,
        offset_lag=offset_lag,
        isolation_level=isolation_level,
        estimated_records=records,
        head_digest=head.digest,
        estimated_bytes=None if size is None else round(records * size),
        gone=tuple(gone),
    )


def share_fairly(available: Sequence[int], budget: int, turn: int = 0) -> list[int]:
    """Split a budget over partitions by max-min fairness.

    A partition with less than an equal share gets all that it has. The others share the rest
    equally. The remainder of that division is given one by one, and each turn begins with another
    partition.

    Args:
        available: Number of offsets ready in each partition.
        turn: Grows by one with every run; decides which partitions get the remainder.

    Returns:
        For each partition, in the order given; never more than it has.
    """
    shares = [0] * len(available)
    by_size = sorted((i for i, a in enumerate(available) if a > 0), key=lambda i: available[i])
    left, served = budget, 0
    for index in by_size:
        if available[index] > left // (len(by_size) - served):
            break
        shares[index] = available[index]
        left -= available[index]
        served += 1
    larger = sorted(by_size[served:])
    if not larger:
        return shares
    equal, remainder = divmod(left, len(larger))
    first = turn % len(larger)  # with a small budget nobody waits for ever
    for rank, index in enumerate(larger[first:] + larger[:first]):
        shares[index] = equal + (1 if rank < remainder else 0)
    return shares


def _shortened(planned: PlannedRange, records: int) -> PlannedRange:
    if records == len(planned.offsets):
        return planned
    return replace(planned, end_offset=planned.start_offset + records)


def readable_range(
    position: PartitionPosition,
    start: int,
    topic: TopicObservation | None,
    isolation_level: str,
) -> PlannedRange | None:
    """The range from an offset to the end of what can be read.

    Args:
        position: Which log is meant.
        start: First offset (inclusive).
        topic: As observed; None if it was not.
        isolation_level: `read_committed` stops at the last stable offset.

    Returns:
        None if there is nothing to read, the partition did not answer, or its topic id differs.
    """
    if topic is None or topic.topic_id != position.topic_id:
        return None
    seen = topic.partition(position.partition)
    if seen is None or not seen.answered:
        return None
    end = seen.end_offset(isolation_level)
    assert end is not None  # answered
    assert seen.log_start_offset is not None
    assert seen.high_watermark is not None
    assert seen.last_stable_offset is not None
    if end <= start:
        return None
    return PlannedRange(
        topic=position.topic,
        topic_id=position.topic_id,
        generation=position.generation,
        partition=position.partition,
        start_offset=start,
        end_offset=end,
        leader_epoch=seen.leader_epoch,
        log_start_offset=seen.log_start_offset,
        high_watermark=seen.high_watermark,
        last_stable_offset=seen.last_stable_offset,
    )


def by_generation(planned: PlannedRange, generations: Generations) -> list[PlannedRange]:
    """A range of the newest generation, split where one begins; each part has its own."""
    return [
        replace(planned.at(part), generation=identity.generation)
        for identity, part in generations.split(planned.identity, [planned.offsets])
    ]


def move_over_coverage(
    head: Head, observation: Observation, blocked: frozenset[TopicPartition]
) -> Head:
    """The head, with each position moved to the end of the covered range around it (R12).

    Args:
        observation: It has no findings about partitions that are not blocked.
        blocked: Partitions that must not move because of an open incident.
    """
    coverage = head.landed
    moved = []
    for position in head.positions:
        reached = covered_until(coverage.get(position.identity, ()), position.next_offset)
        seen = observation.partition(position.topic_partition)
        stays = reached == position.next_offset or position.topic_partition in blocked
        if stays or seen is None or not seen.answered:
            moved.append(position)
        else:
            moved.append(position.moved(reached, seen))
    return replace(head, positions=tuple(moved))


def new_places(before: Head, after: Head) -> tuple[Notice, ...]:
    """Notices about topics and partitions that the new head follows and the old one did not.

    A stream's first head gives no notices: all of it is new.
    """
    if before.start is None:
        return ()
    known = {(p.topic, p.topic_id, p.partition) for p in before.positions}
    topics = {p.topic for p in before.positions}
    notices = []
    for position in after.positions:
        if (position.topic, position.topic_id, position.partition) in known:
            continue
        is_new_topic = position.topic not in topics
        notices.append(
            Notice(
                "new_topic" if is_new_topic else "new_partition",
                position.topic,
                position.partition,
                f"followed from offset {position.next_offset}",
            )
        )
    return tuple(notices)


def stalled_places(observation: Observation) -> dict[TopicPartition, int]:
    """The last stable offset of every partition where an open transaction holds it back."""
    return {
        TopicPartition(topic.topic, seen.partition): seen.last_stable_offset
        for topic in observation.topics
        for seen in topic.partitions
        if seen.answered
        and seen.last_stable_offset is not None
        and seen.high_watermark is not None
        and seen.last_stable_offset < seen.high_watermark
    }


def open_transactions(
    observation: Observation, began: Mapping[TopicPartition, datetime | None], now: datetime
) -> tuple[Notice, ...]:
    """Notices about transactions that read_committed readers wait for.

    Args:
        began: When the first record of each open transaction was written, UTC-aware; None if
            unknown.
        now: UTC-aware.
    """
    notices = []
    for partition, offset in stalled_places(observation).items():
        seen = observation.partition(partition)
        assert seen is not None
        assert seen.high_watermark is not None
        since = began.get(partition)
        hanging = since is not None and now - since > HANGING_AFTER
        opened = "at an unknown time" if since is None else f"at {since.isoformat()}"
        notices.append(
            Notice(
                "hanging_transaction" if hanging else "open_transaction",
                partition.topic,
                partition.partition,
                f"a transaction that began {opened} holds the last stable offset at {offset};"
                f" {seen.high_watermark - offset} offsets wait behind it"
                + ("; find its producer, or use kafka-transactions.sh" if hanging else ""),
            )
        )
    return tuple(notices)
