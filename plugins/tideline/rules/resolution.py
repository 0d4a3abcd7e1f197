"""What a decision does to the head, with what is really lost (R9). Pure.

A decision touches the partitions that it names and no other. Nothing that was landed is ever
overwritten: where a log may hold other records at old offsets, the generation grows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tideline.errors import StreamBusy
from tideline.model.coverage import Coverage, Intervals, add_coverage, subtract
from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Decision, Finding, Incident, one_interval
from tideline.model.observation import (
    Observation,
    PartitionObservation,
    TableObservation,
    TopicObservation,
)
from tideline.model.offsets import PartitionIdentity


@dataclass(frozen=True, slots=True)
class Effect:
    """A decision executed on a head.

    Args:
        outcome: What it did, with what was really lost, in a sentence.
    """

    head: Head
    outcome: str


def execute(
    head: Head, incident: Incident, observation: Observation, removed: tuple[Coverage, ...] = ()
) -> Effect:
    """Apply an incident's decision to what is there now.

    Args:
        head: What the ledger knows.
        incident: With a decision that is valid for its finding.
        observation: A look that still shows the finding.
        removed: Verified offsets that are no longer in the table (`table_changed` only).

    Raises:
        StreamBusy: The observation does not answer what the decision needs.
    """
    decision, finding = incident.decision, incident.finding
    assert decision is not None
    assert decision.choice in finding.choices, (decision.choice, finding.kind)
    if finding.kind == "table_changed":
        return take_table(head, observation.table, removed)
    if finding.kind in ("log_hole", "unexplained_gap"):
        return accept_gap(head, incident)
    if finding.kind == "cluster_changed":
        return _follow_cluster(head, observation)
    positions = [p for p in head.positions if finding.concerns(p.topic_partition)]
    if decision.choice == "retire":
        return _retire(head, positions)
    topic = observation.topic(str(finding.topic))
    if topic is None or not topic.answered:
        raise StreamBusy(f"{finding.place}: no settled answer to execute the decision on")
    if finding.kind == "topic_recreated":
        return _follow_topic(head, topic, positions)
    return _move(head, finding, decision, topic, positions)


def _move(
    head: Head,
    finding: Finding,
    decision: Decision,
    topic: TopicObservation,
    positions: list[PartitionPosition],
) -> Effect:
    (position,) = positions
    seen = topic.partition(position.partition)
    if seen is None:
        raise StreamBusy(f"{finding.place}: the partition is gone, there is nothing to go on with")
    start = _log_start(seen)
    if finding.kind == "retention_loss":
        moved = replace(
            position,
            next_offset=start,
            leader_epoch=seen.leader_epoch,
            seen_end=seen.high_watermark,
        )
        lost = _lost(head, position, start)
        count = sum(map(len, lost))
        shown = f"{', '.join(map(str, lost))}: {count} offsets" if lost else "nothing"
        accepted_loss = add_coverage(head.accepted_loss, ((position.identity, r) for r in lost))
        return Effect(
            replace(_with(head, position, moved), accepted_loss=accepted_loss),
            f"goes on at {start}; lost: {shown}",
        )
    cut = seen.epoch_end_offset
    if cut is None:  # the position had no epoch: the log's end is all there is to go by
        cut = seen.high_watermark or 0
    next_offset, generation = start, next_generation(head, position.identity)
    if decision.choice == "accept_loss":
        next_offset = max(start, min(cut, position.next_offset))
        if not _is_landed_past(head, position, cut):  # only an unread tail was cut
            generation = position.generation
    moved = replace(
        position,
        generation=generation,
        next_offset=next_offset,
        leader_epoch=seen.leader_epoch,
        seen_end=seen.high_watermark,
    )
    gone = ", ".join(str(r) for r in finding.intervals)
    return Effect(
        _with(head, position, moved),
        f"goes on at {next_offset} in generation {generation}; the log no longer has {gone} of"
        f" generation {position.generation}, whose landed rows stay",
    )


def _follow_topic(
    head: Head, topic: TopicObservation, positions: list[PartitionPosition]
) -> Effect:
    new = _from_log_start(head, topic)
    kept = tuple(p for p in head.positions if p not in positions)
    unread = ", ".join(f"{p.topic}-{p.partition} from {p.next_offset}" for p in positions)
    return Effect(
        replace(head, positions=_sorted((*kept, *new))),
        f"goes on with topic id {topic.topic_id} from its log start; of the old incarnation"
        f" {positions[0].topic_id} lost, if it held any: {unread}",
    )


def _follow_cluster(head: Head, observation: Observation) -> Effect:
    """Topics that the new cluster has start anew, those that it lacks are retired."""
    answered = {t.topic: t for t in observation.topics if t.answered}
    absent = {t.topic for t in observation.topics if t.is_absent}
    gone = tuple(p for p in head.positions if p.topic in absent)
    kept = tuple(p for p in head.positions if p.topic not in {*answered, *absent})
    new = tuple(p for t in answered.values() for p in _from_log_start(head, t))
    return Effect(
        replace(
            head,
            cluster_id=observation.cluster_id,
            positions=_sorted((*kept, *new)),
            retired=_sorted((*head.retired, *gone)),
        ),
        f"follows cluster {observation.cluster_id} from the log starts; what cluster"
        f" {head.cluster_id} held past the positions was not read"
        + (f"; not there and no longer followed: {', '.join(map(str, gone))}" if gone else ""),
    )


def _from_log_start(head: Head, topic: TopicObservation) -> tuple[PartitionPosition, ...]:
    topic_id = str(topic.topic_id)
    return tuple(
        PartitionPosition(
            topic.topic,
            topic_id,
            next_generation(head, PartitionIdentity(topic_id, 0, seen.partition)),
            seen.partition,
            _log_start(seen),
            seen.leader_epoch,
            seen.high_watermark,
        )
        for seen in topic.partitions
    )


def _retire(head: Head, positions: list[PartitionPosition]) -> Effect:
    names = ", ".join(f"{p} at {p.next_offset}" for p in positions)
    return Effect(
        replace(
            head,
            positions=tuple(p for p in head.positions if p not in positions),
            retired=_sorted((*head.retired, *positions)),
        ),
        f"no longer followed: {names}",
    )


def accept_gap(head: Head, incident: Incident) -> Effect:
    """Accept the loss of offsets that have neither a row nor a reason."""
    finding = incident.finding
    assert finding.partition is not None
    generation = incident.unverified[0].generation if incident.unverified else 0
    identity = PartitionIdentity(str(finding.topic_id), generation, finding.partition)
    landed = [(identity, r) for r in finding.intervals]
    lost = ", ".join(str(r) for r in finding.intervals[:5])
    more = f" and {len(finding.intervals) - 5} more" if len(finding.intervals) > 5 else ""
    return Effect(
        replace(head, accepted_loss=add_coverage(head.accepted_loss, landed)),
        f"lost: {lost}{more}: {finding.offsets_at_stake} offsets",
    )


def take_table(head: Head, table: TableObservation, removed: tuple[Coverage, ...]) -> Effect:
    """Take the table as it is now; what verified coverage it lacks is on record."""
    gone = [(c.identity, r) for c in removed for r in c.intervals]
    count = sum(len(r) for _, r in gone)
    return Effect(
        replace(
            head,
            table_id=table.table_id,
            table_version=table.version,
            accepted_loss=add_coverage(head.accepted_loss, gone),
        ),
        f"the table as of version {table.version} is taken; {count} verified offsets are no longer"
        " in it",
    )


def next_generation(head: Head, identity: PartitionIdentity) -> int:
    """The first generation of a topic id's partition that the ledger has not seen yet."""
    known = [p.identity for p in (*head.positions, *head.retired)]
    known += [c.identity for c in head.coverage]
    same = [
        k.generation
        for k in known
        if (k.topic_id, k.partition) == (identity.topic_id, identity.partition)
    ]
    return max(same) + 1 if same else 0


def _lost(head: Head, position: PartitionPosition, start: int) -> Intervals:
    covered = {c.identity: c.intervals for c in head.coverage}.get(position.identity, ())
    return subtract(one_interval(position.next_offset, start), covered)


def _is_landed_past(head: Head, position: PartitionPosition, cut: int) -> bool:
    """Whether rows are landed at offsets that the log has lost and may fill with others."""
    covered = {c.identity: c.intervals for c in head.coverage}.get(position.identity, ())
    return position.next_offset > cut or any(r.end_offset > cut for r in covered)


def _with(head: Head, old: PartitionPosition, new: PartitionPosition) -> Head:
    return replace(head, positions=tuple(new if p == old else p for p in head.positions))


def _sorted(positions: Iterable[PartitionPosition]) -> tuple[PartitionPosition, ...]:
    return tuple(sorted(positions, key=lambda p: (p.topic, p.partition, p.topic_id)))


def _log_start(seen: PartitionObservation) -> int:
    assert seen.log_start_offset is not None
    return seen.log_start_offset
