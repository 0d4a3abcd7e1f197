"""Compare what the ledger knows with what is observed now.

The first row that applies decides (faults catalogue, decision order):

    1 the cluster id differs                     cluster_changed
    2 no such topic / the topic id differs       topic_missing / topic_recreated
    3 no such partition                          partition_missing
    4 leader epoch below the known one           transient: a stale leader
    5 the known epoch ends below its known end   truncation
    6 log start past unread offsets              retention_loss
    7 log end below next_offset, epoch intact    transient: a lagging leader
    8 otherwise                                  nothing

Offsets alone prove nothing: a topic that was re-created, or a log that was truncated, looks healthy
once it is filled past the stored position. The topic id (KIP-516) shows the re-creation. The end
offset of the known leader epoch (KIP-101, KIP-320) shows the truncation. That epoch has to reach
the high watermark observed with it, not only the position: truncated records that were not read
yet are lost as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tideline.model.head import Head, PartitionPosition, by_topic
from tideline.model.incident import Finding
from tideline.model.observation import (
    UNDEFINED_EPOCH_END,
    Observation,
    PartitionObservation,
    TopicObservation,
)
from tideline.model.offsets import (
    Intervals,
    OffsetRange,
    PartitionIdentity,
    TopicPartition,
    one_interval,
    subtract,
)
from tideline.model.plan import ClusterRanges
from tideline.rules.foreign_changes import OLDER_LEDGER, table_findings

LEADERS_ANSWER = "an answer of the leader"
"""What is expected of a partition that says nothing; nothing is read of it meanwhile."""


def find_resets(
    head: Head,
    observation: Observation,
    *,
    stream: str,
    ledger_id: str,
    known_token: int | None = None,
) -> tuple[Finding, ...]:
    """Every reason not to read on from the head.

    Args:
        observation: Made with the head's epochs.
        stream, ledger_id: Expected in the table's properties.
        known_token: The newest that the ledger has given out since; None where it does not matter.

    Returns:
        Findings about the table, then the cluster, then topics. `transient` ones need another
        observation; they are no verdict.
    """
    found = table_findings(
        head.table_id,
        observation.table,
        stream,
        ledger_id,
        head.table_version,
        head.commits,
        known_token,
    )
    of_table = tuple(found)
    if any(f.detail == OLDER_LEDGER for f in of_table):
        return of_table  # the log is held against what the table tells, once that is known
    return (*of_table, *_log_findings(head.cluster_id, head.topics, head.landed, observation))


def with_observed_ends(head: Head, observation: Observation) -> tuple[Head, Observation]:
    """The head that knows the epochs and ends that an observation shows, and stands at the same.

    What has been seen once is known, whether it is ever read or not: if it is cut, that is told. A
    log that shows a cut, or whose leader is in doubt, teaches nothing. Expired offsets do not
    matter.

    Args:
        head: With its epochs the observation was made. Leaders give their ends first, and where the
            known epochs end after that (`kafka.requests`): a cut in between shows in the second.

    Returns:
        The head, and the observation as it answers to that head's epochs.
    """
    if head.cluster_id not in (None, observation.cluster_id):
        return head, observation
    known = {p.topic_partition: p for p in head.positions}
    topics = []
    for topic in observation.topics:
        partitions = []
        for seen in topic.partitions:
            place = TopicPartition(topic.topic, seen.partition)
            position = known.get(place)
            if position is not None and position.topic_id == topic.topic_id and seen.answered:
                known[place], seen = _learned(position, seen)
            partitions.append(seen)
        topics.append(replace(topic, partitions=tuple(partitions)))
    after = replace(head, positions=tuple(known[p.topic_partition] for p in head.positions))
    return after, replace(observation, topics=tuple(topics))


def _learned(
    position: PartitionPosition, seen: PartitionObservation
) -> tuple[PartitionPosition, PartitionObservation]:
    """One position and what was seen of its log, as `having_seen` returns them."""
    if any(f.kind != "retention_loss" for f in _partition_findings(position, seen, {})):
        return position, seen
    learned = position.having_seen(seen.leader_epoch, seen.high_watermark)
    if learned == position or learned.leader_epoch is None:
        return learned, seen
    # the leader's own epoch: it reaches what it has replicated, or further
    is_same = learned.leader_epoch == position.leader_epoch
    ends = (seen.high_watermark, seen.epoch_end_offset if is_same else None)
    return learned, replace(seen, epoch_end_offset=max(e for e in ends if e is not None))


def find_resets_after_read(read: ClusterRanges, observation: Observation) -> tuple[Finding, ...]:
    """Changes of the log while a plan was read: its rows cannot be verified (R7).

    These are another cluster, another topic id, a leader epoch that no longer reaches the plan's
    end, or no answer. A log start that has moved does not matter, since the rows are in the table.
    New partitions do not matter either. The epochs and bounds are the plan's, not the head's.

    Args:
        read: The ranges of the plan whose rows were just read.
        observation: Made after that, with the plan's epochs.
    """
    # the plan's end has to be there, and no more: what lies behind it was not read
    last = {r.topic_partition: r for r in sorted(read.ranges, key=lambda r: r.end_offset)}
    ends = (
        PartitionPosition(
            r.topic, r.topic_id, r.generation, r.partition, r.end_offset, r.leader_epoch
        )
        for r in last.values()
    )
    findings = _log_findings(read.cluster_id, by_topic(ends), {}, observation)
    return tuple(
        f
        for f in findings
        if f.kind != "retention_loss" and any(f.concerns(place) for place in last)
    )


def _log_findings(
    cluster_id: str | None,
    known_topics: Mapping[str, list[PartitionPosition]],
    covered: Mapping[PartitionIdentity, Intervals],
    observation: Observation,
) -> Iterator[Finding]:
    if cluster_id is not None and observation.cluster_id != cluster_id:
        yield Finding(
            "cluster_changed",
            expected=f"cluster {cluster_id}",
            actual=f"cluster {observation.cluster_id}",
        )
        return
    seen_topics = {t.topic: t for t in observation.topics}
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
            for finding in _partition_findings(position, seen, covered):
                yield replace(finding, topic=name, topic_id=known_id, partition=position.partition)


def _partition_findings(
    position: PartitionPosition,
    seen: PartitionObservation | None,
    covered: Mapping[PartitionIdentity, Intervals],
) -> Iterator[Finding]:
    """Findings about one partition's log; the caller adds topic and partition."""
    known, known_epoch = position.next_offset, position.leader_epoch
    if seen is None:
        there = f"partition {position.partition}"
        yield Finding("partition_missing", there, "no such partition")
        return
    if seen.refusal is not None:
        yield Finding("unknown", "an answer", seen.refusal)
        return
    if not seen.answered or seen.log_start_offset is None or seen.high_watermark is None:
        yield Finding("transient", LEADERS_ANSWER, seen.fault or "no offsets")
        return
    log_now = f"log {OffsetRange(seen.log_start_offset, seen.high_watermark)}"
    epoch, epoch_end = seen.leader_epoch, seen.epoch_end_offset
    # the epoch goes before all offsets: of a leader that lags behind, none of them counts
    if known_epoch is not None and epoch is not None and epoch < known_epoch:
        yield Finding("transient", f"leader epoch {known_epoch}", f"leader epoch {epoch}")
    elif epoch_end is not None and is_cut(position, seen):
        end = "unknown" if epoch_end == UNDEFINED_EPOCH_END else str(epoch_end)
        yield Finding(
            "truncation",
            expected=f"leader epoch {known_epoch} to reach {position.proven_end}",
            actual=f"its end at {end}, {log_now}",
            intervals=one_interval(max(epoch_end, 0), position.proven_end),  # -1: unknown
        )
    elif lost := lost_to_retention(position, seen.log_start_offset, covered):
        yield Finding(
            "retention_loss",
            expected=f"log start at or below {known}",
            actual=f"log start {seen.log_start_offset}",
            intervals=lost,
        )
    elif seen.high_watermark < known and known_epoch is None:  # no epoch to ask about
        yield Finding(
            "truncation",
            expected=f"an end at or past {known}",
            actual=log_now,
            intervals=one_interval(seen.high_watermark, known),
        )
    elif seen.high_watermark < known:
        yield Finding("transient", f"an end at or past {known}", log_now)


def is_cut(position: PartitionPosition, seen: PartitionObservation) -> bool:
    """Whether the known epoch ends below what was once seen of the log.

    A leader that does not know the epoch says -1: of a log that was always empty nothing is cut.
    """
    end = seen.epoch_end_offset
    return end is not None and max(end, 0) < position.proven_end


def lost_to_retention(
    position: PartitionPosition,
    log_start_offset: int,
    coverage: Mapping[PartitionIdentity, Intervals],
) -> Intervals:
    """The offsets below the log start that nothing has read.

    Args:
        log_start_offset: Oldest readable offset (inclusive).
        coverage: Verified offsets; those that a backfill has landed past the position are not lost.
    """
    expired = one_interval(position.next_offset, log_start_offset)
    return subtract(expired, coverage.get(position.identity, ())) if expired else ()


def _faults_of_new_partitions(
    topic: TopicObservation, positions: list[PartitionPosition]
) -> Iterator[Finding]:
    """A partition that is not in the head yet and did not answer must not be skipped."""
    known = {p.partition for p in positions}
    if not known and topic.refusal is not None:
        yield Finding("unknown", "an answer", topic.refusal, topic.topic, topic.topic_id)
    elif not known and topic.fault is not None:
        yield Finding("transient", "an answer", topic.fault, topic.topic, topic.topic_id)
    for seen in topic.partitions:
        if seen.partition in known:
            continue
        scope = (topic.topic, topic.topic_id, seen.partition)
        if seen.refusal is not None:
            yield Finding("unknown", "an answer", seen.refusal, *scope)
        elif seen.fault is not None:
            yield Finding("transient", "an answer", seen.fault, *scope)
