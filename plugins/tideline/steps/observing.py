"""Look at cluster and table, find first positions, propose ranges. Writes nothing."""

from __future__ import annotations

from dataclasses import replace

from tideline.core.first_positions import Places, adopt_new_partitions
from tideline.core.head import Head
from tideline.core.observation import Observation
from tideline.core.plan import BatchPlan, BatchProposal
from tideline.core.planning import plan_ranges
from tideline.core.replay import Obstacle, obstacles
from tideline.core.stream import StartAt
from tideline.errors import BadInput, Halted, ServiceAway
from tideline.steps.context import RunContext, log


def look(run: RunContext, head: Head) -> tuple[Head, BatchProposal]:
    """One look, and what a live run would do about it.

    Returns:
        The head with a position for everything new (not stored), and the proposal.

    Raises:
        BadInput: The start that the stream file names does not fit the log.
        ServiceAway: The cluster or the table cannot be asked.
    """
    stream = run.stream
    # The end for a start by time is taken before the look-up, so that nothing falls between (R10).
    observation = observe(run, head)
    adopted = adopt_new_partitions(
        head,
        observation,
        start=str(stream.start),
        isolation_level=stream.kafka.isolation_level,
        looked_up=_looked_up(run, head, observation),
    )
    proposal = plan_ranges(
        adopted,
        observation,
        isolation_level=stream.kafka.isolation_level,
        max_records_per_run=stream.limits.max_records_per_run,
        max_records_per_partition=stream.limits.max_records_per_partition,
    )
    return adopted, proposal


def observe(run: RunContext, head: Head) -> Observation:
    """Known topics by name whatever a pattern lists (R14), and those the stream asks for."""
    kafka = run.stream.kafka
    known = set(head.topics)
    wanted = known | set(kafka.topics)
    if kafka.topic_pattern is not None:
        wanted |= set(run.kafka.topics_matching(kafka.topic_pattern))
    epochs = {
        (p.topic, p.partition): p.leader_epoch for p in head.positions if p.leader_epoch is not None
    }
    observation = run.kafka.observe(wanted, epochs)
    never_seen = {
        t.topic
        for t in observation.topics
        if t.topic_id is None and not t.fault and not t.refusal and t.topic not in known
    }
    named = sorted(never_seen & set(kafka.topics))
    if named:
        raise BadInput(
            f"stream {run.stream.stream}: kafka.topics: no such topic in cluster"
            f" {observation.cluster_id}: {', '.join(named)}; create it or correct the name",
            topics=named,
        )
    # What a pattern listed may be deleted by the time it is asked for: it was never followed.
    topics = tuple(t for t in observation.topics if t.topic not in never_seen)
    return replace(observation, topics=topics, table=run.table.observe())


def observe_plan(run: RunContext, plan: BatchPlan) -> Observation:
    """A look at a plan's topics with the plan's own epochs."""
    epochs = {
        (r.topic, r.partition): r.leader_epoch for r in plan.ranges if r.leader_epoch is not None
    }
    return run.kafka.observe({r.topic for r in plan.ranges}, epochs)


def plan_obstacles(run: RunContext, plan: BatchPlan) -> tuple[Obstacle, ...]:
    """What keeps a frozen plan from being read, for good: two looks agree on it.

    Raises:
        ServiceAway: The cluster does not give a settled answer now.
        Halted: The cluster refuses to answer.
    """
    found = _look_at_plan(run, plan)
    if found and found != _look_at_plan(run, plan):
        raise ServiceAway(f"plan {plan.plan_id}: the cluster's answers change; try again")
    return found


def _look_at_plan(run: RunContext, plan: BatchPlan) -> tuple[Obstacle, ...]:
    found = obstacles(plan, observe_plan(run, plan))
    for kind, error in (("refused", Halted), ("passing", ServiceAway)):
        texts = [str(o) for o in found if o.kind == kind]
        if texts:
            raise error(f"plan {plan.plan_id} cannot be read now: {'; '.join(texts)}")
    return found


def _looked_up(run: RunContext, head: Head, observation: Observation) -> Places | None:
    start = run.stream.start
    if head.start is not None:
        if head.start != str(start):
            log.warning(
                "start: %s has no effect, the first positions were resolved from %s",
                start,
                head.start,
            )
        return None
    if not isinstance(start, StartAt):
        return None
    places = [(t.topic, p.partition) for t in observation.topics for p in t.partitions]
    if start.timestamp is not None:
        return run.kafka.offsets_at(start.timestamp, places)
    if start.group is not None:
        return run.kafka.committed_offsets(start.group, places)
    assert start.offsets is not None
    unknown = {(t, p) for t, by_p in start.offsets.items() for p in by_p} - set(places)
    if unknown:
        names = ", ".join(f"{t}-{p}" for t, p in sorted(unknown))
        raise BadInput(f"start.offsets names what the cluster does not have: {names}")
    return {(t, p): start.offsets.get(t, {}).get(p) for t, p in places}
