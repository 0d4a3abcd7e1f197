"""What a ledger that is older than its table learns from the table's own commits (R13).

Rows that it does not know are known again, as a backfill's. What it knows, and a commit that it
does not know has removed, is taken from its coverage, and positions go back to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import groupby

from tideline.documents import load
from tideline.model.erasures import ERASURE, SealedErasure, ToldErasure
from tideline.model.head import Head, KnownCommit, PartitionPosition
from tideline.model.observation import Gap, TopicObservation
from tideline.model.offsets import (
    Beginning,
    CoordinateRange,
    OffsetRange,
    PartitionIdentity,
    PlannedRange,
    ReadRange,
    intersect,
    subtract,
    union,
)
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import Mismatch, VerifiedRange
from tideline.model.run import RunRecord
from tideline.rules.reset_detection import is_cut
from tideline.rules.verification import sound_parts

Names = Mapping[str, str]
_ERASED = re.compile(rf"{ERASURE}\d+\.removed")


def removed_by(commits: Iterable[KnownCommit], missing: Places) -> Places:
    """Verified offsets without a row, where commits say that they have written or removed."""
    return missing & Places.of(*(c.ranges for c in commits))


def erased_by(commits: Iterable[KnownCommit]) -> tuple[CoordinateRange, ...]:
    """What commits say that they have erased by key: a ledger that is older must keep it out."""
    return tuple(r for erasure in erasures_in(commits) for r in erasure.ranges)


def erasures_in(commits: Iterable[KnownCommit]) -> tuple[ToldErasure, ...]:
    """What commits say that they have erased by key, oldest first: an older ledger learns it."""
    return tuple(
        ToldErasure(
            c.commit_id.partition(".")[0],
            tuple(r.as_coordinates for r in c.ranges),
            load(SealedErasure, c.erasure, f"commit {c.version}") if c.erasure else None,
        )
        for c in sorted(commits, key=lambda c: c.token)
        if _ERASED.fullmatch(c.commit_id)
    )


def landed_by(commits: Iterable[KnownCommit]) -> tuple[ReadRange, ...]:
    """What commits have landed, in the order of the table's versions, whatever the clocks said.

    Args:
        commits: In any order.
    """
    return tuple(
        r
        for c in sorted(commits, key=lambda c: c.version)
        if "." not in c.commit_id and not c.commit_id.startswith(ERASURE)
        for r in c.ranges
        if isinstance(r, ReadRange)
    )


def landed_logs(commits: Iterable[KnownCommit]) -> tuple[PartitionIdentity, ...]:
    """The logs of which commits have landed records, in the order in which they were the first."""
    return tuple(dict.fromkeys(r.identity for r in landed_by(commits)))


def having_followed(head: Head, logs: Iterable[PartitionIdentity], names: Names) -> Head:
    """The head that knows which incarnations were followed since it was stored.

    Args:
        logs: What commits have landed that the ledger does not know, the first one first.
        names: Topic names by topic id.
    """
    known = {*head.coverage, *(p.identity for p in (*head.positions, *head.retired))}
    new = [i for i in logs if i not in known and i.topic_id in names]
    stays = groupby(new, lambda i: i.topic_id)
    return head.having_followed((names[topic_id], topic_id, logs) for topic_id, logs in stays)


def without_removed(head: Head, closed: Iterable[RunRecord], gone: Places) -> Head:
    """The head that does not count removed rows, and goes back to the first of them.

    Where the live lane has never been, it does not go: that is a backfill's business.

    Args:
        closed: Every closed run.
        gone: Verified offsets that have no row any more.
    """
    begun: dict[tuple[str, int], int] = {}
    for planned in (v.planned for r in closed if r.lane == "live" for v in r.verified):
        key = (planned.topic_id, planned.partition)
        begun[key] = min(planned.start_offset, begun.get(key, planned.start_offset))
    in_logs = head.of_logs(gone)

    def back(position: PartitionPosition) -> PartitionPosition:
        first = begun.get((position.topic_id, position.partition), 0)
        read = [OffsetRange(first, max(first, position.next_offset))]
        unread = intersect(in_logs[position.identity], read)
        if not unread:
            return position
        # what was seen of the log once counts on: a cut stays one
        return replace(position, next_offset=unread[0].start_offset, seen_end=position.proven_end)

    return replace(
        head,
        positions=tuple(map(back, head.positions)),
        coverage=head.coverage - gone,
        backfilled=head.backfilled - gone,
    )


def amended(closed: Iterable[RunRecord], gone: Places) -> tuple[RunRecord, ...]:
    """The closed records that had verified rows which are gone, with what is left of that."""
    left = ((r, tuple(part for v in r.verified for part in _left(v, gone))) for r in closed)
    return tuple(replace(r, verified=parts) for r, parts in left if parts != r.verified)


def _left(verified: VerifiedRange, gone: Places) -> tuple[VerifiedRange, ...]:
    planned = verified.planned
    gaps = tuple(Gap(lost.offsets, "expired") for lost in gone.cut([planned]))
    if not gaps:
        return (verified,)
    return sound_parts([Mismatch(planned, verified.rows, gaps, 0, verified.gaps)], NOWHERE)


def forgotten(
    head: Head, commits: Iterable[KnownCommit], known: Iterable[str], names: Mapping[str, str]
) -> tuple[ReadRange, ...]:
    """Where commits that the ledger does not know have landed rows which it does not know.

    Args:
        head: Without what has been removed.
        commits: Newest first: the newest that names an offset says whether a row stands there.
        known: Ids of plans that are open: they are recovered as ever.
        names: Topic names by topic id.
    """
    plans, claimed, found = set(known), dict(head.coverage), []
    for commit in commits:
        for r in commit.ranges:
            before = claimed.get(r.identity, ())
            if isinstance(r, ReadRange) and "." not in commit.commit_id:  # of a landing
                rest = subtract([r.offsets], before) if commit.commit_id not in plans else ()
                found += [replace(r.at(p), topic=names.get(r.topic_id, r.topic)) for p in rest]
            claimed[r.identity] = union(before, [r.offsets])
    return tuple(found)


def as_planned(item: ReadRange) -> PlannedRange:
    """A range of which only its end was seen for sure."""
    start, end = item.start_offset, item.end_offset
    return PlannedRange(item.topic, *item.coordinates, item.leader_epoch, start, end, end)


def taken_up(
    head: Head,
    ranges: Iterable[ReadRange],
    topics: Iterable[TopicObservation],
    landed: Iterable[ReadRange] = (),
) -> Head:
    """The head that follows generations and incarnations which only the table knows.

    What was decided about them is in no ledger any more: the first row says where each began.

    Args:
        ranges: Where the table has rows that were forgotten.
        topics: As the brokers tell them now, asked with the head's epochs; none of another cluster.
            One that they do not tell is the one that the head knows.
        landed: Where commits that were forgotten have landed rows, whether they stand or not.
    """
    today = {t.topic: t for t in topics if t.topic_id is not None}
    topic_ids = {p.topic: p.topic_id for p in head.positions}
    topic_ids |= {topic: str(t.topic_id) for topic, t in today.items()}
    first: dict[PartitionIdentity, int] = {}
    epochs: dict[PartitionIdentity, int] = {}
    for r in (*ranges, *landed):
        if r.leader_epoch is not None:
            epochs[r.identity] = max(r.leader_epoch, epochs.get(r.identity, -1))
    for r in ranges:
        if topic_ids.get(r.topic) == r.topic_id:
            first[r.identity] = min(r.start_offset, first.get(r.identity, r.start_offset))
    followed, begun = [], []
    for p in head.positions:
        topic_id = topic_ids.get(p.topic)
        of_topic = [i for i in first if i.topic_id == topic_id]
        newer = [i for i in of_topic if i.partition == p.partition]
        if topic_id == p.topic_id:
            newer = [i for i in newer if i.generation > p.generation]
            known = [p.next_offset]
        else:
            known = [] if newer else [0]  # a partition of the new topic without any row
        if newer or (of_topic and topic_id != p.topic_id):
            p = replace(
                p,
                topic_id=str(topic_id),
                generation=max((i.generation for i in newer), default=0),
                next_offset=min([*known, *(first[i] for i in newer)]),
                leader_epoch=None,
                seen_end=None,
            )
            begun += [Beginning(i, first[i]) for i in newer]
        elif (p.leader_epoch or 0) > epochs.get(p.identity, p.leader_epoch or 0) and not _is_cut(
            p, today
        ):
            # A look has seen a newer one before these rows were known: their own has to hold. But
            # if what the look has seen was cut since, that is told first.
            p = replace(p, leader_epoch=None, seen_end=None)
        followed.append(p)
    return replace(head, positions=tuple(followed)).begun(begun)


def _is_cut(position: PartitionPosition, today: Mapping[str, TopicObservation]) -> bool:
    topic = today.get(position.topic)
    seen = topic.partition(position.partition) if topic is not None else None
    return seen is not None and is_cut(position, seen)
