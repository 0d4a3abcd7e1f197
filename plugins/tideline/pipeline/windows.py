"""Resolve a backfill's times to offsets, once, and keep them in the ledger (R11)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from tideline.ledger.state import LedgerState
from tideline.model.head import Head
from tideline.model.observation import Observation, PartitionObservation
from tideline.model.offsets import TopicPartition
from tideline.model.window import ResolvedTimestamp
from tideline.pipeline.context import RunContext, now
from tideline.rules.backfill import Asked, asked_by_ranges, asked_by_window
from tideline.rules.following import only_followed
from tideline.rules.windows import find_window_boundary, in_order


def asked_offsets(
    run: RunContext, head: Head, observation: Observation, *, keep: bool
) -> dict[TopicPartition, Asked]:
    """What a backfill is about, by partition.

    Args:
        run: This run.
        head: With a position for everything that is followed; topics that are set aside have none
            of the window.
        observation: Taken before this call.
        keep: Whether times that are resolved here go into the ledger.

    Raises:
        BadInput: Ranges that the stream or the log does not have.
        WindowUnavailable: A record from the future makes a look-up unusable.
        ServiceAway: Cluster or ledger cannot be asked.
    """
    request = run.request
    head = only_followed(head, run.stream.kafka)
    if request.window is None:
        level = run.stream.kafka.isolation_level
        return asked_by_ranges(request.ranges, head, observation, level)
    first = _resolve_timestamp(run, request.window.start, head, observation, keep=keep)
    last = _resolve_timestamp(run, request.window.end, head, observation, keep=keep)
    return asked_by_window(head.positions, first, last)


def _resolve_timestamp(
    run: RunContext, at: datetime, head: Head, observation: Observation, *, keep: bool
) -> ResolvedTimestamp:
    """The boundary of a time in every partition that answered; what is known already stays."""
    known = _known(run.ledger.instants(), at)
    answered = _answered(observation)
    unknown = [
        p
        for p in head.positions
        if known.of(p.identity) is None
        and p.topic_partition in answered
        and getattr(observation.topic(p.topic), "topic_id", None) == p.topic_id
    ]
    if not unknown:
        return known
    answers = run.kafka.offsets_at(at, [p.topic_partition for p in unknown])
    looked_up = []
    for position in unknown:
        seen = answered[position.topic_partition]
        boundary = find_window_boundary(
            at, position, seen, answers[position.topic_partition], now()
        )
        looked_up.append((boundary, seen.log_start_offset or 0))

    def shared() -> ResolvedTimestamp:
        """With what is known by now: whoever was first counts."""
        timestamps = run.ledger.instants()
        added = (in_order(b, at, timestamps.values(), start) for b, start in looked_up)
        return _known(timestamps, at).joined(ResolvedTimestamp(at, tuple(added)))

    if not keep:
        return shared()
    resolved = known

    def share(state: LedgerState) -> LedgerState:
        nonlocal resolved
        resolved = shared()
        return state.with_instant(resolved)

    run.ledger.update(share)
    return resolved


def _answered(observation: Observation) -> dict[TopicPartition, PartitionObservation]:
    return {
        TopicPartition(topic.topic, seen.partition): seen
        for topic in observation.topics
        for seen in topic.partitions
        if seen.answered
    }


def _known(timestamps: Mapping[str, ResolvedTimestamp], at: datetime) -> ResolvedTimestamp:
    return timestamps.get(ResolvedTimestamp(at).key, ResolvedTimestamp(at))
