"""Rows that a later snapshot has not read again: their deletes were lost. Listed first, then swept.

A snapshot reads every row of the source. So a row whose last change came before the snapshot began
is not there any more. Where it began is told in each partition by its first record there. Only a
partition without a record of it is asked for Kafka's times: what has the time of any record of the
snapshot, or of what came after it, or a later one, came after it as well. Clocks go back, so the
earliest of these times counts, and some seconds less. A snapshot that goes on beside the changes
(`incremental`) says nothing of what is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta

from tideline.decoding.verifying import let_go, refuse_lacking
from tideline.errors import BadInput, ServiceAway
from tideline.folding.current_tables import refuse_taken, table_of
from tideline.folding.fold_execution import execute_fold
from tideline.folding.fold_planning import plan_fold, plan_recompute
from tideline.folding.fold_rules import due_changes, newest_logs
from tideline.folding.fold_steps import verify_current
from tideline.landing.context import RunContext
from tideline.model.current import Floor, FoldRecord
from tideline.model.offsets import (
    OffsetRange,
    PartitionIdentity,
    PlaceInLog,
    TopicPartition,
    intersect,
    subtract,
)
from tideline.model.wording import first_few
from tideline.table.scans import (
    behind_newest,
    below,
    earliest_from,
    first_since,
    has_other,
    last_before,
    newest_marked,
    quarantined,
)

_CREATE_TIME = 0
"""As Kafka's clients write it: the producer's time."""
SHOWN = 20
"""So many keys are shown."""
_FIRST, _LAST = ("first", "first_in_data_collection"), ("last", "last_in_data_collection")
"""Marks of a whole snapshot's first and last record (debezium-core, SnapshotRecord)."""
_WHOLE = ("true", *_FIRST, *_LAST)
_TICK = timedelta(microseconds=1)
"""Of times in a table."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_STEP = timedelta(seconds=30)
"""So far a clock that goes back may have gone where nothing shows it."""


@dataclass(frozen=True, slots=True)
class StaleRows:
    """Rows that are not at the source any more.

    Args:
        began_at, ended_at: Kafka's times of the snapshot's first and last record, UTC-aware.
        floors: Where it begins, in each partition.
        rows: How many.
        keys: The first of them.
    """

    began_at: datetime
    ended_at: datetime
    floors: tuple[Floor, ...]
    rows: int
    keys: tuple[dict[str, str | None], ...]


def find_stale_rows(run: RunContext) -> StaleRows:
    """The rows that the last whole snapshot has not read again; nothing is changed.

    Args:
        run: This run; its stream has a current table.

    Raises:
        BadInput: There is no such snapshot; or something that it has read is not in the table.
        ServiceAway: A store is away.
    """
    state, name = run.ledger.read(), run.stream.stream
    plan = plan_recompute(run, state)
    known = {str(column["name"]) for column in run.source.columns()}
    if plan is None or "snapshot" not in known:
        raise BadInput(
            f"stream {name}: a sweep needs a current table that is folded, made of change events"
            " with the column snapshot (decode.value.envelope, own_columns)"
        )
    if plan.order == "sequence":
        raise BadInput(
            f"stream {name}: current.sequence_by orders its changes instead of their offsets, so a"
            " change below the snapshot may be newer than the snapshot. Next: give current.table"
            " another address, and a fold builds that table from the topic's records"
        )
    if due_changes(state.decoding, state.folding, "").is_anything:
        raise BadInput(
            f"stream {name}: some changes are not folded yet: run tideline fold FILE first"
        )
    refuse_taken(run, state)
    refuse_lacking(run, plan.covered, "Nothing was swept")
    logs = newest_logs(state.decoding.coverage, plan.incarnations)
    topic_id = logs[0].topic_id
    snapshot = _snapshot(run, topic_id)
    floors = _floors(run, logs, snapshot)
    if len(floors) > 1 and snapshot.began - (snapshot.before or _LONG_AGO) < _STEP:
        raise BadInput(
            f"stream {name}: the earlier snapshot ended less than {_STEP.seconds} s before this"
            " snapshot began, so nobody knows which records belong to which. Nothing was swept."
            " Next: let the connector take another snapshot"
        )
    if len(floors) > 1 and has_other(run.table, "timestamp_type", _CREATE_TIME):
        raise BadInput(
            f"stream {name}: its records have the brokers' times (message.timestamp.type:"
            " LogAppendTime), which do not order those of several partitions: where the snapshot"
            " began in each, nobody knows"
        )
    if why := _unread(run, floors, snapshot.ended) or _not_read(run, floors, snapshot.began):
        raise BadInput(
            f"stream {name}: since the snapshot began, {why}: its rows would look as if they were"
            " gone. Nothing was swept"
        )
    older = {*plan.eras} - {topic_id}  # later ones have no row yet
    rows, first = below(table_of(run), floors, sorted(older), plan.layout.key, SHOWN)
    keys = ({n: None if v is None else str(v) for n, v in key.items()} for key in first)
    return StaleRows(snapshot.began, snapshot.ended, floors, rows, tuple(keys))


def sweep(run: RunContext, rows: int) -> tuple[StaleRows, FoldRecord | None]:
    """Have these rows be gone.

    Args:
        run: This run.
        rows: How many they are, as somebody has seen them listed.

    Returns:
        What was swept, and the closed fold; None where there is nothing to sweep.

    Raises:
        BadInput: They are another number; or as of `find_stale_rows`.
        ServiceAway: A store is away, or the table was changed meanwhile.
    """
    with run.ledger.lease("decoder"):
        stale = find_stale_rows(run)
        if stale.rows != rows:
            raise BadInput(f"--rows: got {rows}; allowed: {stale.rows}, as many as there are")
        if not rows:
            return stale, None
        plan = plan_fold(run, run.ledger.read(), None, 0.0, sweep=stale.floors)
        assert plan is not None
        execute_fold(run, plan)
    return stale, verify_current(run)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """Kafka's times of the last whole snapshot.

    Args:
        began, ended: Of its first and its last record; a snapshot of one row has no first one.
        before: Of the last record of the whole snapshot before it; None for none.
    """

    began: datetime
    ended: datetime
    before: datetime | None


def _snapshot(run: RunContext, topic_id: str) -> _Snapshot:
    """The last whole snapshot.

    Raises:
        BadInput: None is decoded, or its first record is not: where it began, nobody knows.
    """
    table, name = run.source, run.stream.stream
    ended = newest_marked(table, topic_id, "snapshot", _LAST, None)
    if ended is None:
        raise BadInput(
            f"stream {name}: no whole snapshot is decoded: no record has the mark"
            f" {' or '.join(_LAST)}"
        )
    began = newest_marked(table, topic_id, "snapshot", _FIRST, ended)
    earlier = newest_marked(table, topic_id, "snapshot", _LAST, ended - _TICK)
    if began is None or (earlier is not None and began <= earlier):
        # of one row there is the last record only
        others = newest_marked(table, topic_id, "snapshot", ("true", *_FIRST), ended)
        if others is not None and (earlier is None or others > earlier):
            raise BadInput(
                f"stream {name}: the first record of the snapshot that ended at"
                f" {ended:%Y-%m-%d %H:%M:%S} is not decoded: where it began, nobody knows. Nothing"
                " was swept. Next: tideline redrive, if it is in quarantine; or another snapshot"
            )
        began = ended
    before = newest_marked(table, topic_id, "snapshot", _LAST, began - _TICK)
    return _Snapshot(began, ended, before)


def _floors(
    run: RunContext, logs: Iterable[PartitionIdentity], snapshot: _Snapshot
) -> tuple[Floor, ...]:
    """Where the snapshot begins in each partition; its end if no record is of it or came after.

    Raises:
        BadInput: A clock went back behind the snapshot before this one: which records are of which,
            nobody knows.
    """
    table, covered = run.source, run.ledger.read().decoding.coverage
    ends = [i.at(covered[i][-1].end_offset) for i in logs]
    marked = _lowest(ends, first_since(table, snapshot.before, "snapshot", _WHOLE))
    earliest = earliest_from(table, marked)
    if (before := snapshot.before) is not None and (why := _went_back(run, before, earliest)):
        raise BadInput(
            f"stream {run.stream.stream}: a record that came after the snapshot began {why}, and"
            f" the snapshot before ended at {before:%Y-%m-%d %H:%M:%S}: the producer's clock went"
            " back, and where this snapshot began nobody knows. Nothing was swept. Next: have the"
            " connector make another snapshot"
        )
    began = min(snapshot.began, earliest or snapshot.began)
    if len(marked) < len(ends):  # the others are told by times alone
        began = max(began - _STEP, began - _STEP if before is None else before + _TICK)
    since = _lowest(ends, first_since(table, began))
    lowest = {(p.topic_id, p.partition): p for p in ends}
    for found in (*marked, *since):
        known = lowest[found.topic_id, found.partition]
        lowest[found.topic_id, found.partition] = found if found.is_before(known) else known
    return tuple(Floor(*astuple(p)) for p in lowest.values())


def _went_back(run: RunContext, before: datetime, earliest: datetime | None) -> str | None:
    """What shows that a clock went back behind the snapshot before, in words; None for nothing.

    Args:
        before: When that one ended.
        earliest: The first time of all that came since this one began.
    """
    if earliest is not None and earliest <= before:
        return f"has Kafka's time {earliest:%Y-%m-%d %H:%M:%S}"
    for log in behind_newest(run.source, before, "snapshot", _WHOLE):
        return f"may be of partition {log.partition}, where times of a snapshot go back"
    return None


def _lowest(
    ends: Iterable[PlaceInLog], firsts: Mapping[PartitionIdentity, int]
) -> tuple[PlaceInLog, ...]:
    """Of each of these partitions the lowest place that was found, over all generations."""
    found: dict[tuple[str, int], PlaceInLog] = {}
    partitions = {(p.topic_id, p.partition) for p in ends}
    for log in sorted(firsts):
        if (log.topic_id, log.partition) in partitions:
            found.setdefault((log.topic_id, log.partition), log.at(firsts[log]))
    return tuple(found.values())


def _unread(run: RunContext, floors: tuple[Floor, ...], ended: datetime) -> str | None:
    """What Kafka holds that may be of the snapshot and is not landed, in words; None for nothing.

    A partition is read behind the snapshot once nothing is unread there, or a record is decoded, or
    is the next one, whose time is clearly later. An open transaction counts as unread.

    Raises:
        ServiceAway: Kafka is away, or a partition does not answer.
    """
    head, topic_id = run.ledger.read().head, floors[0].topic_id
    (name,) = run.stream.kafka.topics
    topic = run.kafka.observe([name], {}).topic(name)
    if topic is None or topic.fault or topic.refusal:
        raise ServiceAway(f"topic {name} does not answer; nothing was swept, try again")
    if topic.topic_id != topic_id:
        return f"topic {name} was created again, and no run has come since (tideline run FILE)"
    reached = {p.partition: p.next_offset for p in head.positions if p.topic_id == topic_id}
    places = [TopicPartition(name, p.partition) for p in topic.partitions]
    firsts = run.kafka.offsets_at(ended + _STEP, places)
    decoded = first_since(run.source, ended + _STEP)
    later = {log.partition for log in decoded if log.topic_id == topic_id}
    for place, seen in zip(places, topic.partitions, strict=True):
        if not seen.answered:
            raise ServiceAway(f"partition {place} does not answer; nothing was swept, try again")
        assert seen.high_watermark is not None
        assert seen.log_start_offset is not None
        start = max(reached.get(seen.partition, 0), seen.log_start_offset)
        first = firsts[place]
        is_read = seen.partition in later or (first is not None and first.offset == start)
        if seen.high_watermark > start and not is_read:
            return (
                f"{seen.high_watermark - start} offsets of partition {seen.partition} are not"
                " landed (tideline run FILE first)"
            )
    return None


def _not_read(run: RunContext, floors: tuple[Floor, ...], began: datetime) -> str | None:
    """What may be of the snapshot, or came after it, and is in no typed row; None for nothing.

    A floor is the first record that is decoded: those right below it may be the snapshot's as well,
    down to the last one that is clearly older.
    """
    state = run.ledger.read()
    assert run.typed is not None
    older = last_before(run.source, began - _STEP)
    covered, lost = state.decoding.coverage, state.head.accepted_loss
    bad = quarantined(run.typed.quarantine, (), None)
    gone = let_go(run, state)
    above = [
        (floor, log, max(landed[0].start_offset, min(older.get(log, -1) + 1, floor.offset)))
        for floor in floors
        for log, landed in state.head.coverage.items()
        if (log.topic_id, log.partition) == (floor.topic_id, floor.partition)
        and log.generation >= floor.generation
    ]
    for floor, place, start in above:
        end = state.head.coverage[place][-1].end_offset
        whole = [OffsetRange(start, end)] if end > start else []
        set_aside = [r.offsets for r in bad if r.identity == place]
        for what, found in (
            ("is not decoded", subtract(whole, covered[place])),
            ("was lost", intersect(whole, lost[place])),
            ("is in quarantine", intersect(whole, set_aside)),
            ("was removed by its age or by an erasure", intersect(whole, gone[place])),
        ):
            if found:
                return f"partition {floor.partition} {first_few(found)} {what}"
    return None
