"""Hold what the ledger knows against what is there now (faults catalogue, decision order). Pure.

    1 cluster id differs                         cluster_changed
    2 topic gone / topic id differs              topic_missing / topic_recreated
    3 partition gone                             partition_missing
    4 answered epoch below the known one         passing: a stale leader
    5 the known epoch ends below next_offset     truncation
    6 log start past next_offset                 retention_loss
    7 end below next_offset, epoch intact        passing: a lagging leader
    8 otherwise                                  nothing

Offsets alone prove nothing: a log that was re-created or wiped and then refilled past the stored
position looks healthy. The topic id (KIP-516) tells the first, the end offset of the known
leader epoch (KIP-101, KIP-320) the second.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.core.head import Head, PartitionPosition
from tideline.core.incident import Finding
from tideline.core.observation import (
    UNDEFINED_EPOCH_END,
    Observation,
    PartitionObservation,
    TopicObservation,
)
from tideline.core.plan import BatchPlan
from tideline.core.table_watch import table_findings


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
    of_table = table_findings(head.table_id, observation.table, stream, ledger_id)
    return (*of_table, *_log_findings(head, observation))


def _log_findings(head: Head, observation: Observation) -> Iterator[Finding]:
    if head.cluster_id is not None and observation.cluster_id != head.cluster_id:
        yield Finding(
            kind="cluster_changed",
            cause="the brokers belong to another cluster",
            expected=f"cluster {head.cluster_id}",
            actual=f"cluster {observation.cluster_id}",
            next_step="point the connection back; for the new cluster, a new stream and table",
        )
        return
    seen_topics = {t.topic: t for t in observation.topics}
    known_topics = head.topics
    for name, positions in known_topics.items():
        yield from _topic_findings(name, positions, seen_topics.get(name))
    for topic in observation.topics:
        yield from _faults_of_new_partitions(topic, known_topics.get(topic.topic, []))


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


def _topic_findings(
    name: str, positions: list[PartitionPosition], topic: TopicObservation | None
) -> Iterator[Finding]:
    known_id = positions[0].topic_id
    if topic is not None and topic.refusal is not None:
        yield _unknown(name, known_id, None, topic.refusal)
        return
    if topic is None or topic.fault is not None:
        fault = topic.fault if topic is not None and topic.fault else "no answer about the topic"
        yield _passing(name, known_id, None, fault, "an answer")
        return
    if topic.topic_id is None:
        yield Finding(
            kind="topic_missing",
            cause="the topic is gone",
            expected=f"topic id {known_id}",
            actual="no such topic",
            next_step="restore it, or take the topic out of the stream; see the runbook",
            topic=name,
            topic_id=known_id,
        )
        return
    if topic.topic_id != known_id:
        yield Finding(
            kind="topic_recreated",
            cause="the topic was deleted and re-created",
            expected=f"topic id {known_id}",
            actual=f"topic id {topic.topic_id}",
            next_step="read the new incarnation with a new stream and table, see the runbook; the"
            " rows of the old one stay",
            topic=name,
            topic_id=known_id,
        )
        return
    for position in positions:
        yield from _partition_findings(position, topic.partition(position.partition))


def _partition_findings(
    position: PartitionPosition, seen: PartitionObservation | None
) -> Iterator[Finding]:
    known = position.next_offset
    if seen is None:
        yield Finding(
            kind="partition_missing",
            cause="the partition is gone",
            expected=f"partition {position.partition}",
            actual="no such partition",
            next_step="find out who removed it; see the runbook",
            topic=position.topic,
            topic_id=position.topic_id,
            partition=position.partition,
        )
        return
    args = (position.topic, position.topic_id, position.partition)
    if seen.refusal is not None:
        yield _unknown(*args, seen.refusal)
        return
    if not seen.answered or seen.log_start_offset is None or seen.high_watermark is None:
        yield _passing(*args, seen.fault or "offsets unknown", "an answer of the leader")
        return
    if (
        position.leader_epoch is not None
        and seen.leader_epoch is not None
        and seen.leader_epoch < position.leader_epoch
    ):
        yield _passing(
            *args, f"leader epoch {seen.leader_epoch}", f"leader epoch {position.leader_epoch}"
        )
        return
    epoch_end = seen.epoch_end_offset
    if epoch_end is not None and epoch_end < known:
        found = "unknown" if epoch_end == UNDEFINED_EPOCH_END else str(epoch_end)
        yield Finding(
            kind="truncation",
            cause="the log was cut below the position; what stands there now are other records",
            expected=f"leader epoch {position.leader_epoch} to reach {known}",
            actual=f"its end at {found}, log [{seen.log_start_offset}, {seen.high_watermark})",
            next_step="look for unclean elections and replaced disks, then see the runbook",
            lost_start=max(epoch_end, 0),
            lost_end=known,
            topic=position.topic,
            topic_id=position.topic_id,
            partition=position.partition,
        )
        return
    if seen.log_start_offset > known:
        yield Finding(
            kind="retention_loss",
            cause="records were deleted before they were read",
            expected=f"log start at or below {known}",
            actual=f"log start {seen.log_start_offset}",
            next_step="raise the retention or run more often; to go on without the lost"
            " records, see the runbook",
            lost_start=known,
            lost_end=seen.log_start_offset,
            topic=position.topic,
            topic_id=position.topic_id,
            partition=position.partition,
        )
        return
    if seen.high_watermark < known:
        if position.leader_epoch is None:
            yield Finding(
                kind="truncation",
                cause="the log ends below the position",
                expected=f"an end at or past {known}",
                actual=f"log [{seen.log_start_offset}, {seen.high_watermark})",
                next_step="look for unclean elections and replaced disks, then see the runbook",
                lost_start=seen.high_watermark,
                lost_end=known,
                topic=position.topic,
                topic_id=position.topic_id,
                partition=position.partition,
            )
        else:
            yield _passing(*args, f"high watermark {seen.high_watermark}", f"at least {known}")


def _faults_of_new_partitions(
    topic: TopicObservation, positions: list[PartitionPosition]
) -> Iterator[Finding]:
    """What is not in the head yet and did not answer must not be passed over."""
    known = {p.partition for p in positions}
    if not known and topic.refusal is not None:
        yield _unknown(topic.topic, topic.topic_id, None, topic.refusal)
    elif not known and topic.fault is not None:
        yield _passing(topic.topic, topic.topic_id, None, topic.fault, "an answer")
    for seen in topic.partitions:
        if seen.partition in known:
            continue
        if seen.refusal is not None:
            yield _unknown(topic.topic, topic.topic_id, seen.partition, seen.refusal)
        elif seen.fault is not None:
            yield _passing(topic.topic, topic.topic_id, seen.partition, seen.fault, "an answer")


def _unknown(topic: str, topic_id: str | None, partition: int | None, actual: str) -> Finding:
    return Finding(
        kind="unknown",
        cause="the cluster refused to answer, which is neither a loss nor a passing fault",
        expected="an answer",
        actual=actual,
        next_step="look at the error; missing rights on the topic are not a deleted topic",
        topic=topic,
        topic_id=topic_id,
        partition=partition,
    )


def _passing(
    topic: str, topic_id: str | None, partition: int | None, actual: str, expected: str
) -> Finding:
    return Finding(
        kind="passing",
        cause="the cluster does not give a settled answer",
        expected=expected,
        actual=actual,
        next_step="try again when the brokers have settled",
        topic=topic,
        topic_id=topic_id,
        partition=partition,
    )
