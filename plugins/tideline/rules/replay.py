"""Whether Kafka can still serve a frozen plan exactly as planned, and what stays if not (R3, R4).

Nothing here lets a shorter read replace what the table holds: rows in the table may be the only
copies that are left. Evidence about missing offsets is kept as well: it can expire, the gap stays.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from tideline.model.head import Head
from tideline.model.observation import (
    UNDEFINED_EPOCH_END,
    Gap,
    Observation,
    PartitionObservation,
    TopicObservation,
    merge_gaps,
)
from tideline.model.offsets import (
    Intervals,
    PartitionIdentity,
    ReadRange,
    TopicPartition,
    intersect,
    union,
)
from tideline.model.places import Places
from tideline.model.plan import BatchPlan, ClusterRanges, LandedRange, places_of
from tideline.model.request import Lane
from tideline.model.run import PartitionEvidence, RunRecord
from tideline.model.wording import first_few

Known = dict[PartitionIdentity, list[Gap]]
_FROM_THE_LOG = ("marker", "aborted")
"""Reasons that explain an offset for good, whatever the log shows later."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why one planned range cannot be read now.

    Args:
        kind: `gone`: Kafka no longer has it. `transient`: a later observation may succeed.
            `refused`: the cluster refuses to answer.
        text: What was observed, for people.
        lost: The part of the plan that is gone; empty for the other kinds.
        expired: Whether the log starts later now, so that what follows can still be read.
        place: The partition; None where it is about the cluster, or about several.
    """

    kind: Literal["gone", "transient", "refused"]
    text: str
    lost: tuple[ReadRange, ...] = ()
    expired: bool = False
    place: TopicPartition | None = None

    @property
    def key(self) -> tuple[str, bool, TopicPartition | None]:
        """What makes it the same obstacle at the next look; offsets move on meanwhile."""
        return self.kind, self.expired, self.place

    def __str__(self) -> str:
        return self.text


def obstacles(asked: ClusterRanges, observation: Observation) -> tuple[Obstacle, ...]:
    """Why a plan cannot be read again; empty if it can.

    A replay needs every offset of `[start, end)`: the same cluster, the same topic id, a log start
    at or below `start`, and the plan's leader epoch up to `end` (KIP-101). The epochs and bounds
    are the plan's, not the head's. A leader whose epoch is older, or whose log is shorter, proves
    nothing: that is transient.

    Args:
        observation: Made with the ranges' epochs.
    """
    if observation.cluster_id != asked.cluster_id:
        text = f"cluster {observation.cluster_id} is not the plan's {asked.cluster_id}"
        return (Obstacle("gone", text, asked.ranges),)
    topics = {t.topic: t for t in observation.topics}
    return tuple(
        replace(obstacle, text=f"{planned}: {obstacle.text}", place=planned.topic_partition)
        for planned in asked.ranges
        for obstacle in _of_topic(planned, topics.get(planned.topic))
    )


def _of_topic(planned: ReadRange, topic: TopicObservation | None) -> Iterator[Obstacle]:
    if topic is None or topic.fault is not None:
        yield Obstacle("transient", "no answer" if topic is None else str(topic.fault))
    elif topic.refusal is not None:
        yield Obstacle("refused", topic.refusal)
    elif topic.topic_id is None:
        yield Obstacle("gone", "the topic is gone", (planned,))
    elif topic.topic_id != planned.topic_id:
        text = f"topic id {topic.topic_id} is not the plan's {planned.topic_id}"
        yield Obstacle("gone", text, (planned,))
    else:
        yield from _of_partition(planned, topic.partition(planned.partition))


def _of_partition(planned: ReadRange, seen: PartitionObservation | None) -> Iterator[Obstacle]:
    if seen is None:
        yield Obstacle("gone", "the partition is gone", (planned,))
        return
    if seen.refusal is not None:
        yield Obstacle("refused", seen.refusal)
        return
    start, end = seen.log_start_offset, seen.high_watermark
    if seen.fault is not None or start is None or end is None:
        yield Obstacle("transient", seen.fault or "no offsets known")
        return
    # before the offsets: those of a stale leader prove nothing; an empty log has no epoch
    if (planned.leader_epoch or 0) > (seen.leader_epoch or 0) and seen.leader_epoch is not None:
        yield Obstacle("transient", f"leader epoch {seen.leader_epoch} is below the plan's")
        return
    gone = tuple(_gone(planned, start, seen.epoch_end_offset))
    yield from gone
    # with its epoch intact, the log of a leader that ends too early is only behind
    if not gone and end < planned.end_offset:
        yield Obstacle("transient", f"the leader's log ends at {end}")


def _gone(planned: ReadRange, start: int, epoch_end: int | None) -> Iterator[Obstacle]:
    """What has expired, and what was truncated: a log may have lost offsets at both ends.

    Args:
        start: Oldest readable offset (inclusive).
        epoch_end: End (exclusive) of the plan's leader epoch; `UNDEFINED_EPOCH_END` if the leader
            does not know it, None if it was not asked for.
    """
    kept_end = planned.end_offset
    if epoch_end is not None:
        kept_end = max(min(epoch_end, planned.end_offset), planned.start_offset)
    expired = start > planned.start_offset
    if expired and kept_end > planned.start_offset:
        left = f"[{start}, {kept_end})" if start < kept_end else "nothing"
        lost = replace(planned, end_offset=min(start, kept_end))
        text = f"the log starts at {start}; still there: {left}"
        yield Obstacle("gone", text, (lost,), expired=True)
    if kept_end < planned.end_offset:
        text = f"the log was truncated at {epoch_end}"
        if epoch_end == UNDEFINED_EPOCH_END:
            text = f"the log was truncated: its leader does not know epoch {planned.leader_epoch}"
        if expired:
            text = f"{text}, and starts at {start}"
        yield Obstacle("gone", text, (replace(planned, start_offset=kept_end),))


def shorter_than_landed(
    planned: Sequence[ReadRange],
    read: Mapping[PartitionIdentity, LandedRange],
    landed: Mapping[PartitionIdentity, LandedRange],
) -> list[str]:
    """The ranges of which a replay has not read every offset that the table holds (R4).

    Returns:
        One sentence per such range.
    """
    missing = unread(planned, read, landed)
    shorter = []
    for item in planned:
        lost, new = missing[item.identity], read.get(item.identity)
        if lost:
            shorter.append(
                f"{item}: {new.distinct if new is not None else 0} offsets were read where the"
                f" table holds {landed[item.identity].distinct}; not read: {first_few(lost, 1)}"
            )
    return shorter


def unread(
    planned: Iterable[ReadRange],
    read: Mapping[PartitionIdentity, LandedRange],
    landed: Mapping[PartitionIdentity, LandedRange],
) -> Places:
    """Offsets that the table holds in the logs of a plan, and that were not read."""
    logs = {item.identity for item in planned}
    held = {log: there for log, there in landed.items() if log in logs}
    return places_of(held) - places_of(read)


def of_this_log(offsets: Places, head: Head, plans: Iterable[BatchPlan]) -> Places:
    """The offsets whose rows are verified, or belong to plans whose log is the same.

    Args:
        head: Its coverage is what is verified.
        plans: Their log has not changed since they were read.
    """
    return offsets & (head.coverage | Places.of(*(plan.ranges for plan in plans)))


def only_copies(offsets: Intervals, shown: Iterable[Gap]) -> Intervals:
    """The offsets at which rows stand, and the log has lost what was there.

    Args:
        shown: Why they could not be read, as the log shows it.
    """
    lost = union(g.offsets for g in shown if g.reason in ("hole", "compacted_batch"))
    return intersect(offsets, lost)


def unverified_rows_stand(head: Head, landed: Mapping[PartitionIdentity, LandedRange]) -> bool:
    """Whether the table holds rows, at a plan's coordinates, that nobody has verified."""
    return bool(places_of(landed) - head.coverage)


def what_stays(lane: Lane, landed: Mapping[PartitionIdentity, LandedRange], *, closed: bool) -> str:
    """What a plan that cannot be read again leaves behind, and what to do.

    Args:
        landed: What the table holds inside its ranges.
        closed: Whether the plan is closed now, so that its run gets another one.
    """
    nothing = "None of its rows is in the table"
    if rows := sum(held.rows for held in landed.values()):
        nothing = f"The {rows} rows of the plan in the table stay"
    if closed:
        return f"{nothing}. Run again, the run makes a new plan of what is left"
    if rows:
        return nothing
    if lane == "backfill":
        return (
            f"{nothing}. Decide its open incident, if `tideline incident` names one, and try again"
        )
    return f"{nothing}. The next run finds what is lost, and halts with it as an incident"


def known_evidence(record: RunRecord) -> Known:
    """What the log has shown so far at a run's missing offsets, by partition identity."""
    known: Known = defaultdict(list)
    for evidence in record.evidence:
        known[evidence.identity] += [g for g in evidence.gaps if g.reason in _FROM_THE_LOG]
    for verified in record.verified:
        known[verified.planned.identity] += [g for g in verified.gaps if g.reason in _FROM_THE_LOG]
    return known


def stored_evidence(known: Known) -> tuple[PartitionEvidence, ...]:
    """Evidence in the form in which the ledger keeps it."""
    return tuple(PartitionEvidence(i, merge_gaps(known[i])) for i in sorted(known))
