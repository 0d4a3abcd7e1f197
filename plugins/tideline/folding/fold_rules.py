"""What is to be folded, when, how, and whether what came of it holds. Pure.

Folded follows typed as typed follows raw: as a set of coordinates. What is decoded and not folded
yet is folded next, whichever run decoded it. What was folded and is decoded otherwise by now, or
not at all after a rewind, is folded *again*: a row that stands for a change which is no more makes
its bucket be folded anew, from everything that is decoded.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from tideline.model.current import (
    BUCKET,
    INNER,
    IS_DELETED,
    CurrentColumn,
    Deletes,
    Floor,
    Folding,
    FoldRefusal,
    Layout,
    Order,
    is_below,
    taken_by_table,
)
from tideline.model.decoding import Decoding, without_case
from tideline.model.head import Head
from tideline.model.incident import Finding
from tideline.model.offsets import (
    CoordinateRange,
    Incarnations,
    PartitionIdentity,
)
from tideline.model.places import NOWHERE, Places
from tideline.model.wording import first_few
from tideline.stream.schedules import next_time

KEY_TYPES = ("string", "long", "integer", "boolean", "date", "timestamp", "timestamp_ntz", "binary")
"""Types of a key's columns, and decimals: equal values have equal texts."""
SEQUENCE_TYPES = ("string", "long", "integer", "date", "timestamp", "timestamp_ntz")
"""Types of columns that order changes, and decimals: every engine orders them alike."""
_BY_TIME = "Kafka's time orders all changes from now on, and nothing else does"
_MANY_DELETED = 0.1
"""Of the table's rows; so many of keys that are gone are dropped, where they may be."""


def fold_plan_id(ledger_id: str, stream: str, run_id: str, at: datetime) -> str:
    """The id of the plan to fold that a run freezes.

    Args:
        at: When it is planned: an earlier attempt of the run may still wake up, and commit its own.
    """
    name = json.dumps(["fold", ledger_id, stream, run_id, at.isoformat()])
    return hashlib.sha256(name.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be folded.

    Args:
        ranges: Whose changes.
        again: Of what was folded: changes are others by now, or gone.
    """

    ranges: tuple[CoordinateRange, ...]
    again: tuple[CoordinateRange, ...]

    @property
    def is_anything(self) -> bool:
        """Whether there is something to fold."""
        return bool(self.ranges or self.again)


def due_changes(decoding: Decoding, folding: Folding, topic: str) -> Due:
    """What is decoded and not folded; and what was folded and is others, or gone.

    Args:
        topic: The stream's topic, for people; only ids count here.
    """
    again = folding.changed | (folding.coverage - decoding.coverage)
    fresh = decoding.coverage - (folding.coverage - again)
    return Due(_ranges(fresh, topic), _ranges(again, topic))


def ranges_to_refold(
    ranges: Iterable[CoordinateRange], decoding: Decoding, topic: str
) -> tuple[CoordinateRange, ...]:
    """The ranges of a fold that is cleared, as far as they are decoded still."""
    return _ranges(Places.of(ranges) & decoding.coverage, topic)


def covered_ranges(coverage: Places, topic: str) -> tuple[CoordinateRange, ...]:
    """A coverage as ranges."""
    return _ranges(coverage, topic)


def has_to_fold(decoding: Decoding, folding: Folding, every: float, coming: int = 0) -> bool:
    """Whether a run has something to fold now; arguments as of `is_time`."""
    return is_time(due_changes(decoding, folding, ""), folding, every, coming)


def is_time(work: Due, folding: Folding, every: float, coming: int = 0) -> bool:
    """Whether to fold now.

    Args:
        work: What is due.
        every: The share of the table's rows that the unfolded changes have to exceed.
        coming: How many more of them there will be by then, in offsets.
    """
    if work.again or folding.open is not None or any(i.is_decided for i in folding.incidents):
        return True
    waiting = coming + sum(len(r.offsets) for r in work.ranges)
    return waiting > every * (folding.live + folding.deleted)


def share_now(every: float | str, folding: Folding, timezone: str, at: datetime) -> float:
    """The share of the table's rows that unfolded changes have to exceed at a moment.

    Args:
        every: As in the stream file: the share itself; or a cron expression, whose first time
            behind the last fold makes each change enough, and until then none.
        timezone: Name of the cron expression's zone.
        at: The moment, UTC-aware.
    """
    if not isinstance(every, str):
        return every
    last = folding.folded_at
    return 0.0 if last is None or next_time(every, timezone, last) <= at else math.inf


def loses_a_barrier(work: Due, folding: Folding) -> bool:
    """Whether the change that said that all rows are gone is gone itself, or another one."""
    barrier = folding.barrier
    return barrier is not None and any(
        r.identity == barrier.identity and r.start_offset <= barrier.offset < r.end_offset
        for r in work.again
    )


def comes_below(work: Due, floors: Sequence[Floor], order: Incarnations) -> bool:
    """Whether a change below floors is to be folded, or is another one, or gone."""
    of_log = {(f.topic_id, f.partition): (f,) for f in floors}  # there may be thousands of both
    return any(
        is_below(
            r.identity.at(r.start_offset),
            (*floors[:1], *of_log.get((r.topic_id, r.partition), ())),
            order,
        )
        for r in (*work.ranges, *work.again)
    )


def are_reordered(folding: Folding, order: Incarnations) -> bool:
    """Whether incarnations whose changes are folded came in another order than it was thought."""
    known = Incarnations(folding.eras, folding.returns)
    pairs = {(known.of(i), order.of(i)) for i in folding.coverage}
    then = [old for old, _ in pairs if old is not None]
    now = [new for old, new in sorted((o, n) for o, n in pairs if o is not None and n is not None)]
    return len({*then}) < len(then) or now != sorted({*now})


def drops_of(folding: Folding, order: Order, *, is_anew: bool) -> tuple[Floor, ...]:
    """Below which place rows of keys that are gone are dropped, if they need not be kept.

    What is folded is below; what this plan folds is not. Only where offsets order changes is all
    that comes later above; and until there are many, no bucket is written for this alone.

    Args:
        is_anew: Whether every bucket is written anyway.
    """
    if order != "offset" or not folding.eras:
        return ()
    if not is_anew and folding.deleted <= _MANY_DELETED * (folding.live + folding.deleted):
        return folding.drops
    newest = newest_logs(folding.coverage, Incarnations(folding.eras, folding.returns))
    found = (
        Floor(i.topic_id, i.generation, i.partition, folding.coverage[i][-1].end_offset)
        for i in newest
    )
    return tuple(found) or folding.drops


def newest_logs(
    covered: Iterable[PartitionIdentity], order: Incarnations
) -> tuple[PartitionIdentity, ...]:
    """Of each partition of the newest incarnation among them the log of the last generation."""
    eras = {i: order.of(i) or 0 for i in sorted(covered)}
    newest = max(eras.values(), default=0)
    return tuple({i.partition: i for i, era in eras.items() if era == newest}.values())


def floors_still_landed(floors: Iterable[Floor], landed: Places) -> tuple[Floor, ...]:
    """The floors, or none where the snapshot is not landed any more, after a rewind.

    Where it is landed and has to be decoded again, they stand.
    """
    known, is_there = tuple(floors), False
    for f in known:
        ranges = landed[f.identity]
        if not any(r.start_offset <= f.offset <= r.end_offset for r in ranges):
            return ()
        is_there |= any(r.start_offset <= f.offset < r.end_offset for r in ranges)
    return known if is_there else ()


def unproven_since(
    folding: Folding, head: Head, at: datetime, erased: Places = NOWHERE
) -> datetime | None:
    """Since when the table may have rows that are gone at the source; None where it has none.

    Args:
        folding: The fold's head, with the floors that stand.
        at: When a fold that is the first to find it so is frozen.
        erased: Changes that were erased while their keys kept others.
    """
    healed = folding.healed if folding.floors else NOWHERE
    lost = head.lost_deletes | folding.lost | erased
    return folding.unproven_since or at if lost - healed else None


def current_columns_of(
    typed: Sequence[Mapping[str, object]],
    key: Sequence[str],
    own: Collection[str],
    known: Sequence[CurrentColumn],
    beside: Collection[str] = (),
) -> tuple[CurrentColumn, ...]:
    """The current table's columns: the key's, then the row's, the known ones in their order.

    Args:
        typed: The typed table's columns in Delta's form.
        key: Names of those that make a key.
        own: Names of the typed table's own columns.
        known: What the table has.
        beside: Names of the table's columns that order changes.
    """
    types = {str(c["name"]): c["type"] for c in typed}
    names, others = {c.source: c.name for c in known}, {*map(without_case, types)}
    taken = {IS_DELETED, BUCKET, *beside, *map(without_case, names.values())}
    rows = [n for n in types if n not in own and n not in key]
    order = [*key, *(c.source for c in known if c.source in rows), *rows]
    found = []
    for source in dict.fromkeys(order):
        name, number = names.get(source, source), 1
        while source not in names and (
            without_case(name) in taken
            or name.lower().startswith((INNER, "tideline_"))
            or (number > 1 and without_case(name) in others)
        ):
            name = f"value_{source}" if number == 1 else f"value_{source}_{number}"
            number += 1
        taken.add(without_case(name))
        found.append(CurrentColumn(name, source, types[source]))
    return tuple(found)


def lost_columns(
    folded: Iterable[CurrentColumn], typed: Iterable[Mapping[str, object]]
) -> tuple[str, ...]:
    """Columns that were folded, and fields in them, that the typed table no longer has.

    The sums of rows that stand have them still.
    """
    now = {str(column["name"]): column["type"] for column in typed}
    return tuple(
        name
        for column in folded
        for name in (
            _lost_fields(column.source, column.type, now[column.source])
            if column.source in now
            else [column.source]
        )
    )


def _lost_fields(name: str, before: object, now: object) -> list[str]:
    """The fields that a type no longer has, at any depth, with dots between levels."""
    if not (isinstance(before, Mapping) and isinstance(now, Mapping)):
        return []
    fields, found = {f["name"]: f["type"] for f in now.get("fields", ())}, list[str]()
    for field in before.get("fields", ()):
        at = f"{name}.{field['name']}"
        there = fields.get(field["name"])
        found += [at] if there is None else _lost_fields(at, field["type"], there)
    for part in ("elementType", "keyType", "valueType"):
        found += _lost_fields(name, before.get(part), now.get(part))
    return found


def wrong_key(
    key: Sequence[str], typed: Sequence[Mapping[str, object]], sequence: Sequence[str] = ()
) -> str | None:
    """What is wrong with a key, in words; None where nothing is."""
    return taken_by_table(key, sequence) or _wrong(key, typed, KEY_TYPES)


def wrong_deletes(key: Sequence[str], deletes: Deletes, columns: Sequence[str]) -> str | None:
    """What is wrong with a key where a record without a value has to delete, in words; or None.

    Args:
        deletes: Where change events delete, such a record only follows them (`untold`); where a
            column's text does, and no key is decoded, it belongs to no row.
        columns: Columns of the decoded key: all that such a record has.
    """
    untold = [n for n in key if n not in columns]
    is_needed = deletes.column is None or bool(columns)
    if not (deletes.tombstones and untold and is_needed) or deletes.untold:
        return None
    return (
        f"{untold[0]} is no column of the decoded key, and a record without a value has no others:"
        f" it could delete no row; those of the key: {', '.join(columns) or 'none'}. Next: a key of"
        " these, deletes.when without decode.key, or deletes: {tombstone: false} where no such"
        " records come"
    )


def wrong_mark(name: str | None, typed: Sequence[Mapping[str, object]]) -> str | None:
    """What is wrong with a column whose text deletes, in words; None where nothing is.

    Args:
        name: The column, if there is one.
        typed: The typed table's columns in Delta's form.
    """
    kind = next((c["type"] for c in typed if c["name"] == name), None)
    if kind != "variant" and not isinstance(kind, Mapping):
        return None
    return (
        f"{name} has values of several parts, which are no text; allowed: a column of texts,"
        " numbers, booleans, times or bytes"
    )


def deletes_otherwise(folding: Folding, deletes: Deletes, *, has_events: bool) -> bool:
    """Whether other changes delete now than when the table was folded.

    Before the first fold that noted it, a text in a column took the place of a change event's `op`.

    Args:
        has_events: Whether the typed rows are of change events.
    """
    if folding.layout is None:  # nothing is folded
        return False
    if folding.deletes is not None:
        return folding.deletes != deletes
    return deletes.passes or (has_events and deletes.column != "op")


def wrong_sequence(names: Sequence[str], typed: Sequence[Mapping[str, object]]) -> str | None:
    """What is wrong with columns that are to order changes, in words; None where nothing is."""
    return _wrong(names, typed, SEQUENCE_TYPES)


def _wrong(
    names: Sequence[str], typed: Sequence[Mapping[str, object]], allowed: Sequence[str]
) -> str | None:
    types = {str(c["name"]): c["type"] for c in typed}
    for name in names:
        if name not in types:
            return f"{name} is no column of the typed table; allowed: {', '.join(types)}"
        kind = str(types[name])
        if kind not in allowed and not kind.startswith("decimal("):
            short = kind if isinstance(types[name], str) else "of several values"
            return f"{name} is {short}; allowed types: {', '.join(allowed)}, decimal"
    return None


def sequence_of(
    names: Sequence[str], typed: Sequence[Mapping[str, object]]
) -> tuple[CurrentColumn, ...]:
    """The table's columns that order changes: `sequence_1` and so on, of typed columns."""
    types = {str(c["name"]): c["type"] for c in typed}
    return tuple(CurrentColumn(f"sequence_{n}", s, types[s]) for n, s in enumerate(names, 1))


def buckets_of_day(day: date, count: int, buckets: int) -> tuple[int, ...]:
    """The buckets whose turn it is on a day: with `count` a day each comes once in a round.

    Args:
        count: How many a day.
        buckets: How many there are.
    """
    if count >= buckets:
        return tuple(range(buckets))
    first = day.toordinal() * count
    return tuple(sorted({n % buckets for n in range(first, first + count)}))


def refused_changes(order: Order, untold: Sequence[str], refused: Sequence[FoldRefusal]) -> Finding:
    """What is found where changes have no place in the table; there is one at least.

    Args:
        order: What orders the plan's changes.
        untold: Columns of the key that a change event which deletes may lack.
        refused: A truncate counts more than changes that came with it, then the first one does.
    """
    kinds, what = [one.why for one in refused], first_few([one.what for one in refused])
    why = "truncated" if "truncated" in kinds else kinds[0]
    declared = "of each change a place in the order that current.sequence_by declares"
    if why == "truncated":
        reason = "offsets of several partitions say no order"
        if is_declared := order == "sequence":
            reason = "such a change has no value in current.sequence_by"
        return Finding(
            kind="key_moved",
            expected=declared if is_declared else "op t in a topic of one partition only",
            actual=what,
            detail=f"all rows went at the source (TRUNCATE), and {reason}, so nobody knows which"
            " changes came before; landing and decoding continue",
            remedy=f"decide by_time: {_BY_TIME}. skipped.operations: t keeps later ones out",
        )
    if why == "unordered":
        return Finding(
            kind="key_moved",
            expected=declared,
            actual=f"changes without one: {what}",
            detail="a change has no value in current.sequence_by; landing and decoding continue",
            remedy=f"find out why it has none, or decide by_time: {_BY_TIME}",
        )
    if why == "untold":
        names = ", ".join(untold)
        return Finding(
            kind="key_moved",
            expected=f"of each change event that deletes a row its {names}",
            actual=f"some with null, or a fixed value, that delete no row: {what}",
            detail=f"the record's key has no {names}, and the event does not have the row"
            " before the change, so the row would stay. Landing and decoding continue",
            remedy="another current.table with the record's own key in current.key; or REPLICA"
            " IDENTITY FULL, a new snapshot in a topic that is created again, and another"
            " current.table. by_time does not help",
        )
    return Finding(
        kind="key_moved",
        expected="the changes of each key in one partition of the topic",
        actual=f"changes in several: {what}",
    )


def layout_text(layout: Layout) -> str:
    """A layout as the table's property has it."""
    text = {"key": [*layout.key], "buckets": layout.buckets, "hash": layout.hash}
    if layout.sequence:
        text["sequence"] = [*layout.sequence]
    if layout.type:
        text["type"] = layout.type
    return json.dumps(text)


def _ranges(places: Places, topic: str) -> tuple[CoordinateRange, ...]:
    return places.ranges({log.topic_id: topic for log in places})
