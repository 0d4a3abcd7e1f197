"""Hold what the ledger knows against what is there now (faults catalogue, decision order). Pure.

    1 cluster id differs                         cluster_changed
    2 topic gone / topic id differs              topic_missing / topic_recreated
    3 partition gone                             partition_missing
    4 answered epoch below the known one         passing: a stale leader
    5 the known epoch ends below what was seen   truncation
    6 log start past what is landed              retention_loss
    7 end below next_offset, epoch intact        passing: a lagging leader
    8 otherwise                                  nothing

Offsets alone prove nothing: a log that was re-created or wiped and then refilled past the stored
position looks healthy. The topic id (KIP-516) tells the first, the end offset of the known
leader epoch (KIP-101, KIP-320) the second. What has to be reached is the high watermark that came
with that epoch, not only the position: an unread tail that was cut is lost as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tideline.model.coverage import Intervals, subtract
from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Finding, one_interval
from tideline.model.observation import (
    UNDEFINED_EPOCH_END,
    Observation,
    PartitionObservation,
    TopicObservation,
)
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.plan import BatchPlan
from tideline.rules.table_watch import table_findings


def find_resets(
    head: Head, observation: Observation, *, stream: str, ledger_id: str
) -> tuple[Finding, ...]:
    """Everything that speaks against reading on from the head.

    Args:
        head: What the ledger knows.
        observation: What is there now.
        stream: Name of this stream, as the table should carry it.
        ledger_id: Id of this ledger, as the table should carry it.

    Returns:
        Findings, worst place first; `passing` ones ask for another look, never for a verdict.
    """
    of_table = table_findings(
        head.table_id, observation.table, stream, ledger_id, head.table_version
    )
    return (*of_table, *_log_findings(head, observation))


def find_resets_after_read(plan: BatchPlan, observation: Observation) -> tuple[Finding, ...]:
    """What happened to the log while a plan was read, and makes its rows doubtful (R7).

    Another cluster, another topic id, an epoch that no longer reaches the plan's end, or no settled
    answer. A log start that has moved since is no matter: the rows are here. Nor are new
    partitions. The plan's own epochs and bounds count, not the head's.

    Args:
        plan: The plan whose rows were just read.
        observation: A look taken after that, with the plan's epochs.
    """
    read = Head(
        cluster_id=plan.cluster_id,
        positions=tuple(
            PartitionPosition(
                r.topic, r.topic_id, r.generation, r.partition, r.end_offset, r.leader_epoch
            )
            for r in plan.ranges
        ),
    )
    findings = _log_findings(read, observation)
    return tuple(f for f in findings if f.kind != "retention_loss")


def _log_findings(head: Head, observation: Observation) -> Iterator[Finding]:
    if head.cluster_id is not None and observation.cluster_id != head.cluster_id:
        yield Finding(
            "cluster_changed",
            expected=f"cluster {head.cluster_id}",
            actual=f"cluster {observation.cluster_id}",
        )
        return
    seen_topics = {t.topic: t for t in observation.topics}
    known_topics = head.topics
    covered = {c.identity: c.intervals for c in head.coverage}
    for name, positions in known_topics.items():
        yield from _topic_findings(name, positions, seen_topics.get(name), covered)
    for topic in observation.topics:
        yield from _faults_of_new_partitions(topic, known_topics.get(topic.topic, []))


def _topic_findings(
    name: str,
    positions: list[PartitionPosition],
    topic: TopicObservation | None,
    covered: Mapping[PartitionIdentity, Intervals],
) -> Iterator[Finding]:
    known_id = positions[0].topic_id
    if topic is not None and topic.refusal is not None:
        yield Finding("unknown", "an answer", topic.refusal, name, known_id)
    elif topic is None or topic.fault is not None:
        fault = topic.fault if topic is not None and topic.fault else "no answer about the topic"
        yield Finding("transient", "an answer", fault, name, known_id)
    elif topic.topic_id is None:
        yield Finding("topic_missing", f"topic id {known_id}", "no such topic", name, known_id)
    elif topic.topic_id != known_id:
        yield Finding(
            "topic_recreated", f"topic id {known_id}", f"topic id {topic.topic_id}", name, known_id
        )
    else:
        for position in positions:
            seen = topic.partition(position.partition)
            for found in _partition_findings(position, seen, covered):
                yield replace(found, topic=name, topic_id=known_id, partition=position.partition)


def _partition_findings(
    position: PartitionPosition,
    seen: PartitionObservation | None,
    covered: Mapping[PartitionIdentity, Intervals],
) -> Iterator[Finding]:
    """What speaks against one partition's log; the caller says which partition it is."""
    known, known_epoch = position.next_offset, position.leader_epoch
    if seen is None:
        there = f"partition {position.partition}"
        yield Finding("partition_missing", there, "no such partition")
        return
    if seen.refusal is not None:
        yield Finding("unknown", "an answer", seen.refusal)
        return
    if not seen.answered or seen.log_start_offset is None or seen.high_watermark is None:
        yield Finding("transient", "an answer of the leader", seen.fault or "no offsets")
        return
    log_now = f"log {OffsetRange(seen.log_start_offset, seen.high_watermark)}"
    epoch, epoch_end = seen.leader_epoch, seen.epoch_end_offset
    if known_epoch is not None and epoch is not None and epoch < known_epoch:
        yield Finding("transient", f"leader epoch {known_epoch}", f"leader epoch {epoch}")
    elif epoch_end is not None and epoch_end < position.proven_end:
        end = "unknown" if epoch_end == UNDEFINED_EPOCH_END else str(epoch_end)
        yield Finding(
            "truncation",
            expected=f"leader epoch {known_epoch} to reach {position.proven_end}",
            actual=f"its end at {end}, {log_now}",
            intervals=one_interval(max(epoch_end, 0), position.proven_end),
        )
    elif lost := _lost(position, seen.log_start_offset, covered):
        yield Finding(
            "retention_loss",
            expected=f"log start at or below {known}",
            actual=f"log start {seen.log_start_offset}",
            intervals=lost,
        )
    elif seen.high_watermark < known and known_epoch is None:
        yield Finding(
            "truncation",
            expected=f"an end at or past {known}",
            actual=log_now,
            intervals=one_interval(seen.high_watermark, known),
        )
    elif seen.high_watermark < known:
        yield Finding("transient", f"an end at or past {known}", log_now)


def _lost(
    position: PartitionPosition, log_start: int, covered: Mapping[PartitionIdentity, Intervals]
) -> Intervals:
    """Unread offsets below the log start; what a backfill landed beyond the head is not lost."""
    gone = one_interval(position.next_offset, log_start)
    return subtract(gone, covered.get(position.identity, ())) if gone else ()


def _faults_of_new_partitions(
    topic: TopicObservation, positions: list[PartitionPosition]
) -> Iterator[Finding]:
    """What is not in the head yet and did not answer must not be passed over."""
    known = {p.partition for p in positions}
    if not known and topic.refusal is not None:
        yield Finding("unknown", "an answer", topic.refusal, topic.topic, topic.topic_id)
    elif not known and topic.fault is not None:
        yield Finding("transient", "an answer", topic.fault, topic.topic, topic.topic_id)
    for seen in topic.partitions:
        if seen.partition in known:
            continue
        place = (topic.topic, topic.topic_id, seen.partition)
        if seen.refusal is not None:
            yield Finding("unknown", "an answer", seen.refusal, *place)
        elif seen.fault is not None:
            yield Finding("transient", "an answer", seen.fault, *place)
