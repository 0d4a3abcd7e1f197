"""Move the head over a verified plan, and measure how soon retention reaches its next offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta

from tideline.errors import StreamBusy
from tideline.model.head import Head, Headroom, KnownCommit, PartitionPosition
from tideline.model.observation import Observation
from tideline.model.offsets import (
    CoordinateRange,
    Intervals,
    OffsetRange,
    PartitionIdentity,
    PlannedRange,
    TopicPartition,
    covered_until,
    subtract,
    union,
)
from tideline.model.places import Places
from tideline.model.plan import BatchPlan, VerifiedRange
from tideline.model.run import TableCommit


def advance_head(head: Head, plan: BatchPlan, table_commit: TableCommit) -> Head:
    """The head after a plan's rows have been verified in the table.

    A position at the start of its planned range, or at the end of what is covered from there on,
    moves to the end of the range. A position at or past the end, in the same log, stays. Any other
    position is an error. A range below the first offset of the position's generation is of the
    same log if it has the older generation.

    A backfill adds coverage and moves no position. If it landed offsets beyond a position, the
    position takes the newer leader epoch, so that their truncation is detected (R12).

    Raises:
        StreamBusy: A position is neither at the start (or where coverage leads from there) nor at
            or past the end of its range, or the commit was made to another table than the head's.
    """
    if head.table_id not in (None, table_commit.table_id):
        raise StreamBusy(
            f"plan {plan.plan_id} was committed to table {table_commit.table_id}, the ledger knows"
            f" table {head.table_id}; no position has moved"
        )
    positions = {p.topic_partition: p for p in head.positions}
    moved = False
    if plan.lane == "live":
        moved = _move(positions, head, plan)
    else:
        _learn(positions, head, plan)
    return replace(
        head,
        positions=tuple(positions[key] for key in sorted(positions)),
        coverage=head.coverage | Places.of(plan.ranges),
        table_id=table_commit.table_id,
        # a recovered plan's commit may be older than what the ledger knows of the table
        table_version=max(table_commit.version, head.table_version or 0),
        commits=add_commit(head, plan, table_commit).commits,
        headroom=tuple(  # measured at another offset, it tells nothing
            h for h in head.headroom if _is_at(positions, h.topic, h.partition, h.next_offset)
        ),
        live_runs=head.live_runs + (1 if moved else 0),
        bytes_per_record=table_commit.bytes / table_commit.rows
        if table_commit.rows and table_commit.bytes  # not known of an older commit
        else head.bytes_per_record,
    )


def _move(positions: dict[TopicPartition, PartitionPosition], head: Head, plan: BatchPlan) -> bool:
    """Move positions over a live plan; whether there was one to move."""
    logs, coverage, lost = head.logs, head.landed, head.of_logs(head.accepted_loss)
    moved = False
    for item in plan.ranges:
        key = item.topic_partition
        position = positions.get(key)
        if position is None or not _is_of(logs, item):
            raise _refused(item, position)
        if position.next_offset >= item.end_offset:
            continue  # a replay, or a decision has moved it over the range
        covered, gone = (known.get(position.identity, ()) for known in (coverage, lost))
        if not _leads_to(position, item, covered, gone):
            raise _refused(item, position)
        positions[key] = _seen(replace(position, next_offset=item.end_offset), item)
        moved = True
    return moved


def _learn(positions: dict[TopicPartition, PartitionPosition], head: Head, plan: BatchPlan) -> None:
    """Take the epochs of a backfill's ranges that reach beyond positions."""
    logs = head.logs
    for item in plan.ranges:
        position = positions.get(item.topic_partition)
        if position is None or not _is_of(logs, item):
            continue  # the log is another one by now, or was cut
        if item.end_offset > position.next_offset:
            positions[item.topic_partition] = _seen(position, item)


def with_planned_ends(head: Head, ranges: Iterable[PlannedRange]) -> Head:
    """The head with the epochs and ends that were observed when ranges were planned.

    That is known, whether they are ever read or not: what is cut there later was there once.
    """
    positions = {p.topic_partition: p for p in head.positions}
    logs = head.logs
    for item in ranges:
        if _is_of(logs, item):
            positions[item.topic_partition] = _seen(positions[item.topic_partition], item)
    return replace(head, positions=tuple(positions[key] for key in sorted(positions)))


def _is_of(logs: Mapping[PartitionIdentity, OffsetRange], item: PlannedRange) -> bool:
    """Whether a range is part of a log that is followed today, in the generation meant there."""
    there = logs.get(item.identity)
    return there is not None and there.holds(item.offsets)


def _leads_to(
    position: PartitionPosition, item: PlannedRange, covered: Intervals, lost: Intervals
) -> bool:
    """Whether a position is at a range's start, or nothing unknown lies between.

    A backfill may have landed offsets before the range was planned, or the range's beginning since.
    A decision may have moved the position over offsets of the range whose loss it accepted.
    """
    first, last = sorted((position.next_offset, item.start_offset))
    if first == item.start_offset:
        covered = union(covered, lost)
    return first == last or covered_until(covered, first) >= last


def _seen(position: PartitionPosition, item: PlannedRange) -> PartitionPosition:
    """The position with the newer of both leader epochs, and the log's end observed in it."""
    return position.having_seen(item.leader_epoch, item.high_watermark)


def _is_at(
    positions: dict[TopicPartition, PartitionPosition], topic: str, partition: int, next_offset: int
) -> bool:
    position = positions.get(TopicPartition(topic, partition))
    return position is not None and position.next_offset == next_offset


def _refused(item: object, position: PartitionPosition | None) -> StreamBusy:
    at = "unknown" if position is None else f"{position.next_offset} of {position.identity}"
    return StreamBusy(
        f"{item}: the position is {at}; expected the start of this range, or its end or more."
        " No position has moved; look at `tideline ledger`, then run again",
        planned=str(item),
    )


def add_commit(head: Head, plan: BatchPlan, table_commit: TableCommit) -> Head:
    """The head that knows a plan's commit, also where no position moves: a replay."""
    made = (table_commit.version, table_commit.token, plan.plan_id, plan.run_id)
    return head.with_commits(KnownCommit.of(*made, plan.ranges))


def count_landed(
    head: Head, plan: BatchPlan, commit: TableCommit, verified: Iterable[VerifiedRange], today: date
) -> Head:
    """The head that counts a closing plan's rows, and knows which offsets a backfill has landed.

    Args:
        head: After the plan's ranges are covered.
        plan: That of a run that was open until now: rows of a replay were counted before.
        today: In UTC.
    """
    ranges = tuple(verified)
    rows = sum(v.rows for v in ranges)
    # the commit's bytes by the share of its rows that are verified now
    size = round(commit.bytes * rows / commit.rows) if commit.rows else 0
    if plan.lane != "backfill":
        known = (h.seconds_left(plan.frozen_at) for h in head.headroom)
        left = min((seconds for seconds in known if seconds is not None), default=None)
        unread = plan.estimated_records + plan.offset_lag
        return head.with_rows_of(today, rows, size, unread, left)
    head = head.with_rows_of(today, rows, size)
    return replace(head, backfilled=head.backfilled | Places.of(v.planned for v in ranges))


def late_rows(head: Head, verified: Iterable[VerifiedRange]) -> tuple[CoordinateRange, ...]:
    """Where rows stand although their loss is accepted: typed tables were made without them.

    Args:
        head: It knows what is accepted.
        verified: Ranges as the table holds them now.
    """
    return tuple(
        part.at(piece)
        for v in verified
        for part in head.accepted_loss.cut([v.planned.as_coordinates])
        for piece in subtract([part.offsets], [gap.offsets for gap in v.gaps])
    )


MOST_MEASURED = 200
"""Of so many partitions the headroom is measured, the furthest behind first."""


def unread_places(
    positions: Iterable[PartitionPosition], observation: Observation, most: int | None = None
) -> dict[TopicPartition, int]:
    """The oldest readable offsets of partitions with unread records, the largest lag first.

    That is the next offset, or the log's start where retention has taken the next one already: it
    goes on there. Partitions that did not answer or have another topic id are left out.

    Args:
        most: Maximum number of partitions; None for all.
    """
    behind = []
    for position in positions:
        topic = observation.topic(position.topic)
        if topic is None or topic.topic_id != position.topic_id:
            continue
        seen = topic.partition(position.partition)
        if seen is None or seen.high_watermark is None or seen.log_start_offset is None:
            continue
        first = max(seen.log_start_offset, position.next_offset)
        if first < seen.high_watermark:
            lag = seen.high_watermark - position.next_offset
            behind.append((lag, position.topic_partition, first))
    behind.sort(key=lambda item: -item[0])
    return {partition: offset for _, partition, offset in behind[:most]}


def headroom_of(
    unread: Mapping[TopicPartition, int],
    written: Mapping[TopicPartition, datetime | None],
    retention_ms: Mapping[str, int | None],
) -> tuple[Headroom, ...]:
    """The headroom of partitions, the smallest first, unknown ones last.

    Args:
        unread: Next offset of each partition with unread records.
        written: When the record there was written, UTC-aware; None if unknown.
        retention_ms: `retention.ms` by topic name, in milliseconds; None if time deletes nothing.
    """
    headroom = [
        Headroom(*partition, offset, written.get(partition), retention_ms.get(partition.topic))
        for partition, offset in unread.items()
    ]
    return tuple(sorted(headroom, key=_soonest))


def late_reads(
    ranges: Iterable[PlannedRange],
    written: Mapping[TopicPartition, datetime | None],
    delete_retention_ms: Mapping[str, int],
    began: date | None,
    now: datetime,
) -> tuple[tuple[PlannedRange, timedelta, bool], ...]:
    """Ranges of compacted topics that are read late: a tombstone among them may be gone.

    A tombstone goes `delete.retention.ms` after the cleaning that has removed what is below it. So
    one that is read for the first time is missed only if something below it was landed so long ago.

    Args:
        ranges: What is read now.
        written: When the first record of each was written, UTC-aware; None if unknown.
        delete_retention_ms: By topic name; compacted ones only.
        began: The first day, in UTC, on which something was landed, as far as it is known; None if
            nothing was.
        now: UTC-aware.

    Returns:
        Each range whose first record is older than half of that time; how old it is, and whether it
        is older than all of it.
    """
    found = []
    for planned in ranges:
        kept = delete_retention_ms.get(planned.topic)
        at = written.get(planned.topic_partition)
        if kept is None or at is None or began is None:
            continue
        stays, age = timedelta(milliseconds=kept), now - at
        if 2 * age > stays and began <= (now - stays / 2).date():
            found.append((planned, age, age > stays and began <= (now - stays).date()))
    return tuple(found)


def _soonest(headroom: Headroom) -> float:
    expires_at = headroom.expires_at
    return float("inf") if expires_at is None else expires_at.timestamp()


def low_headroom(
    headroom: Iterable[Headroom], within_seconds: float, now: datetime
) -> tuple[Headroom, ...]:
    """The partitions that retention reaches soon.

    Args:
        within_seconds: How soon, in seconds from now (exclusive).
        now: UTC-aware.
    """
    return tuple(
        h for h in headroom if (left := h.seconds_left(now)) is not None and left < within_seconds
    )
