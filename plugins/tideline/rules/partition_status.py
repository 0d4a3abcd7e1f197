"""Where each partition of a stream stands: its log, its next offset, its end, its headroom."""

from __future__ import annotations

from collections.abc import Iterable

from tideline.model.head import Head, Headroom, PartitionPosition
from tideline.model.observation import Observation, PartitionObservation
from tideline.model.offsets import PartitionIdentity
from tideline.model.status import PartitionStatus
from tideline.rules.reset_detection import lost_to_retention

Place = tuple[str | None, int]
"""Topic name, None where the ledger no longer knows it, and partition."""


def partition_statuses(
    head: Head,
    observation: Observation | None,
    isolation_level: str,
    estimated: Iterable[Headroom] = (),
) -> tuple[PartitionStatus, ...]:
    """All partitions that the head knows, by topic and number; those without a name come last.

    `observation` is what the brokers said last, None if they have never answered; the isolation
    level says where the stream's logs end; `estimated` is what counts where no run has measured
    headroom.
    """
    names = head.topic_names
    # A log without a position has lost its name; with one topic it can only be that one's.
    only = next(iter(head.topics)) if len(head.topics) == 1 else None
    logs: dict[Place, set[PartitionIdentity]] = {}
    known = (*head.coverage, *head.accepted_loss)
    for identity in (*known, *(p.identity for p in head.positions)):
        place = (names.get(identity.topic_id, only), identity.partition)
        logs.setdefault(place, set()).add(identity)
    positions: dict[Place, PartitionPosition] = {(p.topic, p.partition): p for p in head.positions}
    headroom: dict[Place, Headroom] = {
        (h.topic, h.partition): h for h in head.headroom or estimated
    }
    landed = head.landed
    found = []
    for place in sorted(logs, key=lambda p: (p[0] is None, p[0] or "", p[1])):
        position = positions.get(place)
        seen = _observed(position, observation)
        end = seen.end_offset(isolation_level) if seen is not None else None
        is_observed = end is not None
        if end is None and position is not None:
            end = position.seen_end
        current = position.identity if position is not None else None
        order = sorted(logs[place], key=lambda i: (i == current, i))  # the current log is last
        start = seen.log_start_offset if seen is not None else None
        is_expired = bool(position and start and lost_to_retention(position, start, landed))
        left = headroom.get(place)
        ids = tuple(order)
        status = PartitionStatus(*place, position, start, end, left, is_expired, is_observed, ids)
        found.append(status)
    return tuple(found)


def _observed(
    position: PartitionPosition | None, observation: Observation | None
) -> PartitionObservation | None:
    """What the brokers said of the log that a position belongs to."""
    if position is None or observation is None:
        return None
    topic = observation.topic(position.topic)
    if topic is None or topic.topic_id != position.topic_id:
        return None  # another topic by now: its offsets mean something else
    return topic.partition(position.partition)
