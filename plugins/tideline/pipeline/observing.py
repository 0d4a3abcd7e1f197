"""Look at cluster and table, find first positions, propose ranges. Writes nothing."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace

from tideline.errors import BadInput, Halted
from tideline.model.head import Head
from tideline.model.headroom import Headroom
from tideline.model.incident import Finding, incident_key
from tideline.model.notice import Notice
from tideline.model.observation import Observation
from tideline.model.offsets import TopicPartition
from tideline.model.plan import BatchPlan, BatchProposal
from tideline.model.stream import StartAt
from tideline.pipeline.agreement import agree
from tideline.pipeline.context import RunContext, log, now
from tideline.pipeline.windows import asked_offsets
from tideline.rules.backfill import findings_against, plan_backfill
from tideline.rules.headroom import headroom_of, unread_places
from tideline.rules.notices import new_places, open_transactions, stalled_places
from tideline.rules.planning import plan_ranges
from tideline.rules.replay import Obstacle, obstacles
from tideline.rules.reset_detection import find_resets, find_resets_after_read
from tideline.rules.start_positions import Places, adopt_new_partitions


@dataclass(frozen=True, slots=True)
class Look:
    """One look at cluster and table, and what a live run would do about it.

    Args:
        head: With a position for everything new; not stored.
        notices: New places and open transactions.
    """

    head: Head
    proposal: BatchProposal
    notices: tuple[Notice, ...]


def look(
    run: RunContext,
    head: Head,
    blocked: frozenset[TopicPartition] = frozenset(),
    *,
    keep: bool = True,
) -> Look:
    """Observe and propose.

    Args:
        run: This run.
        head: What the ledger knows.
        blocked: Partitions that an open incident keeps from moving.
        keep: Whether a backfill's instants, resolved here, go into the ledger.

    Raises:
        BadInput: The start that the stream file names does not fit the log, or what a backfill
            asks for does not.
        WindowUnavailable: Times do not order the log.
        ServiceAway: The cluster or the table cannot be asked.
    """
    # The end for a start by time is taken before the look-up, so that nothing falls between (R10).
    observation = observe(run, head)
    adopted = adopt_new_partitions(
        head,
        observation,
        start=str(run.stream.start),
        isolation_level=run.stream.kafka.isolation_level,
        looked_up=_looked_up(run, head, observation),
    )
    if run.request.lane == "backfill":
        asked = asked_offsets(run, adopted, observation, keep=keep)
        level = run.stream.kafka.isolation_level
        proposal = plan_backfill(adopted, observation, asked, level)
    else:
        proposal = propose_ranges(run, adopted, observation, blocked)
    return Look(
        head=adopted,
        proposal=proposal,
        notices=(*new_places(head, adopted), *_stalled(run, observation)),
    )


def propose_ranges(
    run: RunContext, head: Head, observation: Observation, blocked: frozenset[TopicPartition]
) -> BatchProposal:
    """What a live run would read by the stream's limits; asks nobody."""
    return plan_ranges(
        head,
        observation,
        isolation_level=run.stream.kafka.isolation_level,
        max_records_per_run=run.stream.limits.max_records_per_run,
        max_records_per_partition=run.stream.limits.max_records_per_partition,
        blocked=blocked,
    )


def findings_of(run: RunContext, head: Head, observation: Observation) -> tuple[Finding, ...]:
    """What speaks against going on from a head, or against this backfill."""
    ledger_id = run.ledger.read().control.ledger_id
    found = find_resets(head, observation, stream=run.stream.stream, ledger_id=ledger_id)
    return found if run.request.lane == "live" else findings_against(found, run.request)


def observe(run: RunContext, head: Head) -> Observation:
    """Known topics by name whatever a pattern lists (R14), and those the stream asks for."""
    kafka = run.stream.kafka
    known = set(head.topics)
    retired = {p.topic for p in head.retired}
    wanted = known | set(kafka.topics)
    if kafka.topic_pattern is not None:
        wanted |= set(run.kafka.topics_matching(kafka.topic_pattern))
    epochs = {
        p.topic_partition: p.leader_epoch for p in head.positions if p.leader_epoch is not None
    }
    observation = run.kafka.observe(wanted, epochs)
    never_seen = {
        t.topic
        for t in observation.topics
        if t.topic_id is None and not t.fault and not t.refusal and t.topic not in known
    }
    named = sorted((never_seen & set(kafka.topics)) - retired)
    if named:
        raise BadInput(
            f"stream {run.stream.stream}: kafka.topics: no such topic in cluster"
            f" {observation.cluster_id}: {', '.join(named)}; create it or correct the name",
            topics=named,
        )
    # What a pattern listed may be deleted by the time it is asked for: it was never followed.
    topics = tuple(t for t in observation.topics if t.topic not in never_seen)
    return replace(observation, topics=topics, table=run.table.observe(head.table_version))


def observe_plan(run: RunContext, plan: BatchPlan) -> Observation:
    """A look at a plan's topics with the plan's own epochs."""
    epochs = {r.topic_partition: r.leader_epoch for r in plan.ranges if r.leader_epoch is not None}
    return run.kafka.observe({r.topic for r in plan.ranges}, epochs)


def check_after_read(run: RunContext, plan: BatchPlan) -> tuple[Finding, ...]:
    """R7: Spark reads by topic name; what stood behind the name may have changed meanwhile.

    Raises:
        ServiceAway: The cluster does not give a settled answer.
    """

    def look_again() -> tuple[None, tuple[Finding, ...]]:
        return None, find_resets_after_read(plan, observe_plan(run, plan))

    _, findings = agree(look_again, key=incident_key, patience_seconds=run.stream.patience_seconds)
    return findings


def plan_obstacles(run: RunContext, plan: BatchPlan) -> tuple[Obstacle, ...]:
    """What keeps a frozen plan from being read, for good.

    Raises:
        ServiceAway: The cluster does not give a settled answer.
        Halted: The cluster refuses to answer.
    """

    def look_again() -> tuple[None, tuple[Obstacle, ...]]:
        return None, obstacles(plan, observe_plan(run, plan))

    _, found = agree(look_again, key=hash, patience_seconds=run.stream.patience_seconds)
    refused = [str(o) for o in found if o.kind == "refused"]
    if refused:
        raise Halted(f"plan {plan.plan_id} cannot be read now: {'; '.join(refused)}")
    return found


def measure_headroom(
    run: RunContext, head: Head, observation: Observation, most: int | None = None
) -> tuple[Headroom, ...]:
    """When retention may reach what is unread, for at most so many partitions; a courtesy.

    A missing right to read a topic's settings leaves it unknown, and fails nothing.
    """
    unread = unread_places(head.positions, observation, most)
    if not unread:
        return ()
    try:
        kept = run.kafka.retention_ms({topic for topic, _ in unread})
        timed = {place: o for place, o in unread.items() if kept.get(place[0]) is not None}
        return headroom_of(unread, run.kafka.written_at(timed), kept)
    except Exception as error:
        log.warning("retention headroom is unknown: %s", error)
        return ()


def _stalled(run: RunContext, observation: Observation) -> tuple[Notice, ...]:
    if run.stream.kafka.isolation_level != "read_committed":
        return ()
    stalled = stalled_places(observation)
    began = {}
    with suppress(Exception):
        began = run.kafka.written_at(stalled)
    return open_transactions(observation, began, now())


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
    places = [
        TopicPartition(t.topic, p.partition) for t in observation.topics for p in t.partitions
    ]
    if start.timestamp is not None:
        found = run.kafka.offsets_at(start.timestamp, places)
        return {place: None if at is None else at.offset for place, at in found.items()}
    if start.group is not None:
        return run.kafka.committed_offsets(start.group, places)
    assert start.offsets is not None
    unknown = {(t, p) for t, by_p in start.offsets.items() for p in by_p} - set(places)
    if unknown:
        names = ", ".join(f"{t}-{p}" for t, p in sorted(unknown))
        raise BadInput(f"start.offsets names what the cluster does not have: {names}")
    return {place: start.offsets.get(place.topic, {}).get(place.partition) for place in places}
