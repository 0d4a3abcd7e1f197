"""Whether Kafka can still serve a frozen plan exactly as it was planned (R3, R4). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tideline.core.observation import Observation, PartitionObservation
from tideline.core.plan import BatchPlan, PlannedRange


def obstacles(plan: BatchPlan, observation: Observation) -> tuple[str, ...]:
    """What keeps a plan from being read again; empty when nothing does.

    The plan's own epochs and bounds count, not the head's. A replay needs every offset of
    `[start, end)`: the same cluster and topic id, a log start at or below the start, and the
    plan's leader epoch reaching the end.

    Args:
        plan: The frozen plan.
        observation: A look taken with the plan's epochs.
    """
    if observation.cluster_id != plan.cluster_id:
        return (f"cluster {observation.cluster_id} is not the plan's {plan.cluster_id}",)
    return tuple(_obstacles(plan, observation))


def unanswered(plan: BatchPlan, observation: Observation) -> tuple[str, ...]:
    """Planned places about which the cluster gave no settled answer."""
    found = []
    for planned in plan.ranges:
        topic = observation.topic(planned.topic)
        seen = None if topic is None else topic.partition(planned.partition)
        fault = "no answer" if topic is None else topic.fault
        if fault is None and seen is not None:
            fault = seen.fault
        if fault is not None:
            found.append(f"{planned.topic}-{planned.partition}: {fault}")
    return tuple(found)


def _obstacles(plan: BatchPlan, observation: Observation) -> Iterator[str]:
    topics = {t.topic: t for t in observation.topics}
    for planned in plan.ranges:
        topic = topics.get(planned.topic)
        if topic is None or topic.topic_id is None:
            yield f"{planned}: the topic is gone"
        elif topic.topic_id != planned.topic_id:
            yield f"{planned}: topic id {topic.topic_id} is not the plan's {planned.topic_id}"
        else:
            problem = _problem(planned, topic.partition(planned.partition))
            if problem is not None:
                yield f"{planned}: {problem}"


def _problem(planned: PlannedRange, seen: PartitionObservation | None) -> str | None:
    if seen is None:
        return "the partition is gone"
    if seen.refusal is not None:
        return seen.refusal
    start, end = seen.log_start_offset, seen.high_watermark
    if start is None or end is None:
        return "no offsets known"
    if start > planned.start_offset:
        left = f"[{start}, {planned.end_offset})" if start < planned.end_offset else "nothing"
        return f"the log starts at {start}; still there: {left}"
    epoch_end = seen.epoch_end_offset
    if epoch_end is not None and epoch_end < planned.end_offset:
        return f"the log was truncated at {epoch_end}"
    if end < planned.end_offset:
        return f"the log ends at {end}"
    return None
