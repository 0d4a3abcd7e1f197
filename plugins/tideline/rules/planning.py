"""From head, observation and limits to the ranges of one run. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tideline.model.coverage import covered_until, subtract, total, uncovered_from
from tideline.model.head import Head, PartitionPosition
from tideline.model.observation import Observation, TopicObservation
from tideline.model.offsets import OffsetRange, TopicPartition
from tideline.model.plan import BatchProposal, PlannedRange
from tideline.model.stream import Stream


def share_fairly(available: Sequence[int], budget: int, turn: int = 0) -> list[int]:
    """Split a budget so that no partition gets less than another unless it has less to give.

    Max-min fairness: whoever wants less than an equal share gets all of it, the rest is split
    equally. What does not divide goes one by one, beginning with another partition every turn.

    Args:
        available: Offsets ready in each partition.
        budget: Offsets that may be taken in all.
        turn: Grows with every run; decides who gets the indivisible rest.

    Returns:
        What each partition gets, in the order given; never more than it has.
    """
    shares = [0] * len(available)
    by_size = sorted((i for i, a in enumerate(available) if a > 0), key=lambda i: available[i])
    left, served = budget, 0
    for place in by_size:
        if available[place] > left // (len(by_size) - served):
            break
        shares[place] = available[place]
        left -= available[place]
        served += 1
    places = sorted(by_size[served:])
    if not places:
        return shares
    equal, rest = divmod(left, len(places))
    first = turn % len(places)
    for rank, place in enumerate(places[first:] + places[:first]):
        shares[place] = equal + (1 if rank < rest else 0)
    return shares


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

    Partitions whose log is not the one that the head knows get no range: detection reports them.
    What a backfill has landed and verified is not read again (R12): a range begins after it, or
    ends where it begins.

    Args:
        head: Where the live lane stands.
        observation: One look at the cluster.
        isolation_level: `read_committed` stops at the last stable offset.
        max_records_per_run: Cap over all partitions, counted in offsets.
        max_records_per_partition: Cap for one partition, counted in offsets.
        blocked: Partitions that an open incident keeps from moving.
    """
    coverage = {c.identity: c.intervals for c in head.coverage}
    topics = {t.topic: t for t in observation.topics}
    candidates: list[PlannedRange] = []
    later = 0
    for position in sorted(head.positions, key=lambda p: p.topic_partition):
        if position.topic_partition in blocked:
            continue
        covered = coverage.get(position.identity, ())
        start = covered_until(covered, position.next_offset)
        planned = readable_range(position, start, topics.get(position.topic), isolation_level)
        if planned is not None:
            end = uncovered_from(covered, start, planned.end_offset)
            if end < planned.end_offset:
                later += total(subtract([OffsetRange(end, planned.end_offset)], covered))
                planned = replace(planned, end_offset=end)
            candidates.append(planned)
    available = [len(c.offsets) for c in candidates]
    wanted = [min(a, max_records_per_partition) for a in available]
    shares = share_fairly(wanted, max_records_per_run, turn=head.live_runs)
    ranges = tuple(
        _shortened(candidate, share)
        for candidate, share in zip(candidates, shares, strict=True)
        if share
    )
    records = sum(shares)
    return BatchProposal(
        observation=observation,
        ranges=ranges,
        offset_lag=sum(available) - records + later,
        isolation_level=isolation_level,
        estimated_records=records,
        head_digest=head.digest,
        estimated_bytes=None
        if head.bytes_per_record is None
        else round(records * head.bytes_per_record),
    )


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


def move_over_coverage(
    head: Head, observation: Observation, blocked: frozenset[TopicPartition]
) -> Head:
    """The head past what is verified in the table already (R12).

    Args:
        head: Where the live lane stands.
        observation: One look, in which nothing was found against the partitions that move.
        blocked: Partitions that an open incident keeps from moving.
    """
    coverage = {c.identity: c.intervals for c in head.coverage}
    moved = []
    for position in head.positions:
        reached = covered_until(coverage.get(position.identity, ()), position.next_offset)
        topic = observation.topic(position.topic)
        seen = topic.partition(position.partition) if topic is not None else None
        stays = reached == position.next_offset or position.topic_partition in blocked
        if stays or seen is None or not seen.answered:
            moved.append(position)
            continue
        moved.append(
            replace(
                position,
                next_offset=reached,
                leader_epoch=seen.leader_epoch,
                seen_end=seen.high_watermark,
            )
        )
    return replace(head, positions=tuple(moved))


def readable_range(
    position: PartitionPosition,
    start: int,
    topic: TopicObservation | None,
    isolation_level: str,
) -> PlannedRange | None:
    """From an offset to the end that a reader may reach; None where there is nothing."""
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


def _shortened(planned: PlannedRange, records: int) -> PlannedRange:
    if records == len(planned.offsets):
        return planned
    return replace(planned, end_offset=planned.start_offset + records)
