"""Execute decisions on the head, and say what is lost (R9).

A decision changes only the partitions of its incident. Landed rows are never overwritten: if the
log may hold other records at old offsets, a new generation begins. It begins at the offset where
the log was cut, or at the log start where all of it is read again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tideline.errors import StreamBusy
from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Decision, Finding, Incident
from tideline.model.observation import (
    Observation,
    PartitionObservation,
    TableObservation,
    TopicObservation,
)
from tideline.model.offsets import Beginning, Intervals, PartitionIdentity, intersect, total, union
from tideline.model.places import NOWHERE, Places
from tideline.model.verdicts import GAP_CLASSES
from tideline.model.wording import first_few, how_many
from tideline.rules.foreign_changes import vanished
from tideline.rules.positions import log_start_of
from tideline.rules.reset_detection import lost_to_retention


@dataclass(frozen=True, slots=True)
class Effect:
    """The result of executing a decision.

    Args:
        outcome: What changed and which offsets are lost, in a sentence.
    """

    head: Head
    outcome: str


def apply_decision(
    head: Head, incident: Incident, observation: Observation, removed: Places = NOWHERE
) -> Effect:
    """Execute an incident's decision on the head.

    Args:
        incident: Its decision is valid for its finding.
        observation: A new one, which still shows the finding: the loss counts as it is now.
        removed: Verified offsets that the table no longer holds (`table_changed` only).

    Raises:
        StreamBusy: The observation lacks what the decision needs: a partition did not answer, or is
            gone.
    """
    effect = _execute(head, incident, observation, removed)
    return replace(effect, head=effect.head.having_left(head))


def _execute(head: Head, incident: Incident, observation: Observation, removed: Places) -> Effect:
    decision, finding = incident.decision, incident.finding
    assert decision is not None
    assert decision.choice in finding.choices, (decision.choice, finding.kind)
    # about the table or about gaps: no topic has to answer for that
    if finding.kind == "table_changed":
        return take_table(head, observation.table, finding, removed)
    if finding.kind in GAP_CLASSES:
        return accept_gap(head, incident)
    if finding.kind == "cluster_changed":
        return _follow_cluster(head, observation)
    positions = [p for p in head.positions if finding.concerns(p.topic_partition)]
    if decision.choice == "retire":
        return _retire(head, positions)
    topic = observation.topic(str(finding.topic))
    if topic is None or not topic.answered:
        raise StreamBusy(
            f"{finding.place}: the brokers gave no complete answer, so the decision"
            f" {decision.choice} cannot be executed yet; run again later"
        )
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
        raise StreamBusy(
            f"{finding.place}: the partition no longer exists, so the decision"
            f" {decision.choice} cannot be executed; run again to see its incident"
        )
    if finding.kind == "retention_loss":
        return _past_expired(head, position, seen)
    return _past_cut(head, finding, decision, position, seen)


def _past_expired(head: Head, position: PartitionPosition, seen: PartitionObservation) -> Effect:
    """Go on at the log start; what nobody has read below it is lost."""
    start = log_start_of(seen)
    lost = lost_to_retention(position, start, head.landed)
    after = _with(head, position, position.moved(start, seen))
    return Effect(
        after.without_rows(position.identity, lost), f"continues at {start}; lost: {_shown(lost)}"
    )


def _past_cut(
    head: Head,
    finding: Finding,
    decision: Decision,
    position: PartitionPosition,
    seen: PartitionObservation,
) -> Effect:
    """Go on where the log was cut, or read all of it again; in a new generation if need be."""
    start, cut = log_start_of(seen), seen.epoch_end_offset
    if cut is None:  # the position has no epoch, so the log's end has to do
        cut = seen.high_watermark or 0
    generation = head.next_generation(position.identity)
    unread = min(cut, position.next_offset) if cut >= 0 else start
    first_offset, next_offset = max(cut, 0), max(start, unread)  # below, the log is what it was
    if decision.choice == "restart":
        first_offset, next_offset = min(start, first_offset), start  # everything is read again
    # Also where nobody has read what was cut: a plan may be frozen, a loss accepted, a time
    # resolved there, and none of that is about the records that come now.
    afresh = replace(position, generation=generation, leader_epoch=None, seen_end=None)
    reached = afresh.moved(unread, seen)
    after = _with(head.begun([Beginning(reached.identity, first_offset)]), position, reached)
    lost = lost_to_retention(reached, start, after.landed)  # of the log that is there now
    moved = reached.moved(next_offset, seen)
    after = _with(after, reached, moved)
    gone = ", ".join(str(r) for r in finding.intervals)
    return Effect(
        after.without_rows(moved.identity, lost),
        f"continues at {next_offset} in generation {generation}; the log no longer has"
        f" {gone} of generation {position.generation}; landed rows stay"
        + (f"; deleted before they were read: {_shown(lost)}" if lost else ""),
    )


def _with(head: Head, old: PartitionPosition, new: PartitionPosition) -> Head:
    return replace(head, positions=tuple(new if p == old else p for p in head.positions))


def _shown(lost: Intervals) -> str:
    return f"{', '.join(map(str, lost))}: {sum(map(len, lost))} offsets" if lost else "nothing"


def _follow_topic(
    head: Head, topic: TopicObservation, positions: list[PartitionPosition]
) -> Effect:
    new = _from_log_start(head, topic)
    kept = tuple(p for p in head.positions if p not in positions)
    unread = ", ".join(f"{p.topic}-{p.partition} from {p.next_offset}" for p in positions)
    return Effect(
        replace(head.begun(_beginnings(new)), positions=_sorted((*kept, *new))),
        f"continues with topic id {topic.topic_id} from its log start; unread records of the old"
        f" topic id {positions[0].topic_id} are lost: {unread}",
    )


def _follow_cluster(head: Head, observation: Observation) -> Effect:
    """Topics of the new cluster begin at their log starts; topics that it lacks are retired."""
    answered = {t.topic: t for t in observation.topics if t.answered}
    absent = {t.topic for t in observation.topics if t.is_absent}
    gone = tuple(p for p in head.positions if p.topic in absent)
    kept = tuple(p for p in head.positions if p.topic not in {*answered, *absent})
    new = tuple(p for t in answered.values() for p in _from_log_start(head, t))
    return Effect(
        replace(
            head.begun(_beginnings(new)),
            cluster_id=observation.cluster_id,
            positions=_sorted((*kept, *new)),
            retired=_sorted((*head.retired, *gone)),
        ),
        f"follows cluster {observation.cluster_id} from the log starts; records of cluster"
        f" {head.cluster_id} past the positions were not read"
        + (f"; missing there, no longer followed: {', '.join(map(str, gone))}" if gone else ""),
    )


def _from_log_start(head: Head, topic: TopicObservation) -> tuple[PartitionPosition, ...]:
    topic_id = str(topic.topic_id)
    return tuple(
        PartitionPosition(
            topic.topic,
            topic_id,
            head.next_generation(PartitionIdentity(topic_id, 0, seen.partition)),
            seen.partition,
            log_start_of(seen),
            seen.leader_epoch,
            seen.high_watermark,
        )
        for seen in topic.partitions
    )


def _beginnings(positions: Iterable[PartitionPosition]) -> list[Beginning]:
    """The first offsets of generations that read their log from its start."""
    return [Beginning(p.identity, p.next_offset) for p in positions]


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
    """Accept the loss of an incident's offsets: they have neither a row nor a reason.

    Offsets that Spark cannot read are not asked for again. With the choice `retry` they are:
    nothing is recorded.
    """
    finding = incident.finding
    if incident.has_chosen("retry"):
        return Effect(head, "read once more; nothing is recorded as lost")
    assert finding.partition is not None
    identity = PartitionIdentity(str(finding.topic_id), 0, finding.partition)
    lost = Places({identity: union(finding.intervals)})
    if incident.unverified:  # a range per generation
        lost = Places.of_pieces(
            (planned.identity, r)
            for planned in incident.unverified
            for r in intersect(finding.intervals, [planned.offsets])
        )
    if not finding.intervals:
        return Effect(head, "lost: nothing; rows have landed there since")
    return Effect(
        replace(
            head,
            accepted_loss=head.accepted_loss | lost,
            unreadable=head.unreadable | lost
            if finding.kind == "unreadable_record"
            else head.unreadable,
        ),
        f"lost: {first_few(finding.intervals)}: {how_many(total(finding.intervals), 'offset')}",
    )


def take_table(
    head: Head,
    table: TableObservation,
    finding: Finding,
    removed: Places,
    planned_id: str | None = None,
) -> Effect:
    """Accept the table as it was shown, and record the verified offsets that it no longer holds.

    Commits after the version that the finding tells about stay unknown: the next check looks at
    them.

    Args:
        table: An observation that shows this very finding.
        removed: Verified offsets that the table no longer holds.
        planned_id: The table's id as the plan knows it that ran into the change.
    """
    given_up = {*head.given_up, head.table_id, planned_id} - {None, table.table_id}
    return Effect(
        replace(
            head,
            table_id=table.table_id,
            table_version=finding.table_version,
            commits=tuple(c for c in head.commits if c not in vanished(head.commits, table)),
            accepted_loss=head.accepted_loss | removed,
            given_up=tuple(sorted(map(str, given_up))),
        ),
        f"accepted the table at version {finding.table_version}; it no longer holds"
        f" {how_many(removed.offsets, 'verified offset')}",
    )


def _sorted(positions: Iterable[PartitionPosition]) -> tuple[PartitionPosition, ...]:
    return tuple(sorted(positions, key=lambda p: (p.topic_partition, p.topic_id)))
