"""What a rewind undoes, and the head and records that it leaves.

A rewind restores the head that one run left. It undoes every verified offset that is not in that
head, of both lanes, and every plan that is still open.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime

from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Incident
from tideline.model.offsets import (
    Intervals,
    OffsetRange,
    PartitionIdentity,
    ReadRange,
    TopicPartition,
    covered_until,
    subtract,
    union,
)
from tideline.model.places import Places
from tideline.model.run import Rewind, RunRecord


def undone_ranges(
    head: Head, then: Head, undone: Iterable[RunRecord], names: Mapping[str, str]
) -> dict[str, tuple[ReadRange, ...]]:
    """The coordinates whose rows a rewind removes, with the epochs of the plans that read them.

    Args:
        then: The head to restore.
        undone: Records closed after that head, oldest first, then open ones.
        names: Topic names by topic id, for coverage without a record.

    Returns:
        Ranges by cluster id, sorted by topic, partition and start. Adjacent ranges of one log and
        one epoch are joined.
    """
    claimed = dict(then.coverage)  # what the restored head covers stays
    sorted_by: dict[tuple[str, PartitionIdentity, int | None], list[ReadRange]] = {}
    for cluster, planned in _claims(tuple(undone)):
        known = claimed.get(planned.identity, ())
        claimed[planned.identity] = union(known, [planned.offsets])
        key = (cluster, planned.identity, planned.leader_epoch)
        sorted_by.setdefault(key, []).extend(_pieces(planned, subtract([planned.offsets], known)))
    removed: dict[str, list[ReadRange]] = defaultdict(list)
    for (cluster, _, _), ranges in sorted_by.items():
        if ranges:
            removed[cluster] += _pieces(ranges[0], union(r.offsets for r in ranges))
    for unplanned in (head.coverage - claimed).ranges(names):  # nobody knows its epochs
        removed[str(head.cluster_id)].append(
            ReadRange(unplanned.topic, *unplanned.coordinates, None)
        )
    return {
        cluster: tuple(sorted(ranges, key=lambda r: (r.topic_partition, r.start_offset)))
        for cluster, ranges in removed.items()
        if ranges
    }


def _claims(undone: tuple[RunRecord, ...]) -> Iterator[tuple[str, ReadRange]]:
    """Ranges of undone runs with their cluster ids: the newest verified first, then planned ones.

    The first range that holds an offset is the one whose rows the table has there.
    """
    for record in reversed(undone):
        for verified in record.verified:
            assert record.plan is not None
            yield record.plan.cluster_id, verified.planned.as_read
    for record in reversed(undone):
        if record.plan is not None:
            yield from ((record.plan.cluster_id, planned.as_read) for planned in record.plan.ranges)


def _pieces(planned: ReadRange, intervals: Intervals) -> list[ReadRange]:
    return [planned.at(r) for r in intervals]


def observable_groups(ranges: Iterable[ReadRange]) -> Iterator[tuple[ReadRange, ...]]:
    """The ranges in groups with at most one range per partition, as one observation needs them."""
    grouped: dict[TopicPartition, list[ReadRange]] = defaultdict(list)
    for planned in ranges:
        grouped[planned.topic_partition].append(planned)
    for depth in range(max(map(len, grouped.values()), default=0)):
        yield tuple(group[depth] for group in grouped.values() if depth < len(group))


def rewound_head(head: Head, then: Head, rewind: Rewind, table_version: int | None) -> Head:
    """The head to store: positions and coverage as they were, the table as it is now.

    Accepted losses inside the restored coverage stay, unreadable offsets among them. A position
    moves over offsets that have expired in Kafka, as decision `accept_loss` does. On its way it
    also moves over offsets whose loss was accepted before they were ever read: nobody is asked
    about them twice.

    Args:
        then: The head to restore.
        rewind: Its `lost` names the offsets that Kafka no longer has.
        table_version: Newest version known to hold only what the ledger knows; None without a
            table.
    """
    landed, generations = then.landed, then.generations
    skipped = _never_read(head, then)
    newest = {(p.topic_id, p.partition): p for p in head.positions}
    moved = {
        p.identity: _past_expired(
            _as_seen(p, newest.get((p.topic_id, p.partition))),
            landed[p.identity],
            _expired(rewind, then, p),
            skipped[p.identity],
        )
        for p in then.positions
    }
    passed = [
        part for p, offsets in moved.values() for part in generations.split(p.identity, offsets)
    ]
    return replace(
        then,
        positions=tuple(position for position, _ in moved.values()),
        accepted_loss=then.accepted_loss
        | (head.accepted_loss & then.coverage)
        | Places.of_pieces(passed),
        unreadable=then.unreadable | (head.unreadable & then.coverage),
        table_id=head.table_id,
        table_version=table_version,
        commits=head.commits,  # the table keeps them, and shows them still
        live_runs=head.live_runs,
        bytes_per_record=head.bytes_per_record,
        headroom=(),  # measured where the positions were
        set_aside=head.set_aside,
        given_up=head.given_up,
        given=head.having_given(p.identity for p in head.positions if p.generation).given,
        incarnations=head.incarnations,
    )


def _never_read(head: Head, then: Head) -> Places:
    """Offsets that had expired before they were read, and whose loss was accepted since."""
    return then.of_logs(head.accepted_loss) - then.of_logs(head.coverage)


def _expired(rewind: Rewind, then: Head, position: PartitionPosition) -> list[ReadRange]:
    """What a rewind takes from a position's log, and Kafka has deleted; lowest first."""
    pieces = dict(then.generations.pieces(position.identity))
    expired = [
        item.planned
        for item in rewind.lost
        if item.expired
        and item.planned.identity in pieces
        and pieces[item.planned.identity].holds(item.planned.offsets)
    ]
    return sorted(expired, key=lambda r: r.start_offset)


def _as_seen(position: PartitionPosition, newest: PartitionPosition | None) -> PartitionPosition:
    """A restored position with what has been seen of its log since: a cut stays one.

    Before a cut that was decided, it is the older epoch that shows the cut once more. The log
    behind that cut may be cut as well by then: what it had is told, too, wherever it ends now.
    """
    if newest is None or _is_newer(position.leader_epoch, newest.leader_epoch):
        return position
    if newest.generation != position.generation:
        return replace(position, seen_end=max(position.proven_end, newest.proven_end))
    return replace(position, leader_epoch=newest.leader_epoch, seen_end=newest.proven_end)


def _is_newer(epoch: int | None, known: int | None) -> bool:
    """Whether an epoch tells more than a known one; epoch 0 tells more than none."""
    return epoch is not None and (known is None or epoch > known)


def _past_expired(
    position: PartitionPosition,
    covered: Intervals,
    expired: Iterable[ReadRange],
    never_read: Intervals,
) -> tuple[PartitionPosition, Intervals]:
    """The position moved past expired offsets, and the offsets that it skips."""
    passed: list[OffsetRange] = []
    for gone in expired:
        first = covered_until(covered, position.next_offset)
        reached = covered_until(union(covered, never_read), first)
        if not gone.start_offset <= reached < gone.end_offset:
            continue
        passed.append(OffsetRange(first, gone.end_offset))
        position = replace(position, next_offset=gone.end_offset)
        if _is_newer(gone.leader_epoch, position.leader_epoch):
            position = replace(position, leader_epoch=gone.leader_epoch, seen_end=None)
    return position, subtract(passed, covered)


def undone_record(record: RunRecord, rewind: Rewind, now: datetime) -> RunRecord:
    """The record of a run that is undone: it covers nothing, and clearing it succeeds (R3)."""
    return replace(
        record,
        status="superseded",
        superseded_by=rewind.label,
        table_commit=None,
        verified=(),
        updated_at=now,
    )


def trimmed_record(record: RunRecord, then: Head) -> RunRecord:
    """The record of a run that stays, without ranges that were verified after that head."""
    verified = tuple(v for v in record.verified if not then.coverage.rest([v.planned]))
    return record if len(verified) == len(record.verified) else replace(record, verified=verified)


def amended_later(record: RunRecord, then: Head) -> RunRecord | None:
    """The part of a run's record that was verified after that head; None if there is none."""
    earlier = trimmed_record(record, then).verified
    later = tuple(v for v in record.verified if v not in earlier)
    if not later or record.plan is None:
        return None
    return replace(record, verified=later, plan=replace(record.plan, ranges=()))


def undone_incidents(
    incidents: Iterable[Incident], rewind: Rewind, since: datetime, version: int | None
) -> tuple[Incident, ...]:
    """The incidents that a rewind closes: opened since then, or about undone plans.

    The next run finds again what still differs. Incidents of class `table_changed` stay open.

    Args:
        incidents: Open ones.
        since: When the restored run closed, UTC-aware (exclusive).
        version: Table version that removed the rows; None if none did.
    """
    outcome = f"undone by {rewind.rewind_id}: {rewind.reason}; the next run checks again"
    now = rewind.finished_at or rewind.begun_at
    return tuple(
        i.closed(outcome, now, removed_in_version=version if i.unverified else None)
        for i in incidents
        if (i.opened_at > since or _is_undone(i, rewind)) and i.finding.kind != "table_changed"
    )


def _is_undone(incident: Incident, rewind: Rewind) -> bool:
    plans = incident.plans
    return bool(plans) and all(p.plan_run_id in rewind.undone_runs for p in plans)
