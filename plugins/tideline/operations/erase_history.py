"""The other changes of keys whose records are erased: without the last one a row would be older.

A current table has one row a key, of its last change. An erasure by something else than that key
may take the last change, or the delete, and leave older ones: then the row would come back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tideline.folding.current_tables import refuse_other_type
from tideline.landing.context import RunContext
from tideline.ledger.state import LedgerState
from tideline.model.current import IS_DELETED
from tideline.model.decoding import UNAVAILABLE
from tideline.model.head import Head
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity, intersect
from tideline.model.places import Places
from tideline.table.scans import rows_at

COORDINATES = ("topic_id", "generation", "partition", "offset")
Place = tuple[PartitionIdentity, int]
Values = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Histories:
    """Keys of the current table of which not all changes are found.

    Args:
        key: The columns of a key.
        keys: How many they are.
        deleted: How many of them are deleted today.
        moved: How many would have a row again, or an older one; changes without a key count too.
        others: Where their other changes are.
        keyless: Found changes that are of no key, as of a table that was emptied.
    """

    key: tuple[str, ...] = ()
    keys: int = 0
    deleted: int = 0
    moved: int = 0
    others: frozenset[Place] = frozenset()
    keyless: int = 0

    def __str__(self) -> str:
        return (
            f"{self.keys:,} keys keep older changes, {self.deleted:,} of them are deleted today;"
            f" {self.moved:,} would have a row again or an older one"
        )


def place_of(row: Mapping[str, object]) -> Place:
    """Where a row stands."""
    log = (str(row["topic_id"]), int(str(row["generation"])), int(str(row["partition"])))
    return PartitionIdentity(*log), int(str(row["offset"]))


def histories(
    run: RunContext, state: LedgerState, found: Collection[Place], columns: Collection[str]
) -> Histories:
    """The other changes of the keys of found records.

    Args:
        columns: By which records were found; none where that was by something else, too. All
            changes of a key are found by a part of it.

    Raises:
        BadInput: The stream file names another event type than the one whose changes are folded.
        ServiceAway: A store is away.
    """
    section, folding = run.stream.current, state.folding
    if section is None or run.current is None or not found:
        return Histories()
    refuse_other_type(run, folding)
    typed = run.source
    key = current_key(run, state)
    if columns and {*columns} <= {*key}:
        return Histories()
    mine: dict[Values, set[Place]] = defaultdict(set)
    others: dict[Values, set[Place]] = defaultdict(set)
    lacks = folding.deletes is not None and bool(folding.deletes.untold)
    read = (*key, *(["is_tombstone"] if lacks else []))  # such a record is of no row
    for row in rows_at(typed, ranges_of(found, state.head), read):
        if not (lacks and row["is_tombstone"]):
            mine[tuple(row[n] for n in key)].add(place_of(row))
    keyless = sum(len(places) for values, places in mine.items() if {*values} == {None})
    keys = [values for values in mine if {*values} != {None}]
    for row in typed.rows_with(texts_of(keys, key), (*COORDINATES, *read)):
        if (place := place_of(row)) not in found and not (lacks and row["is_tombstone"]):
            others[tuple(row[n] for n in key)].add(place)
    names = {c.source: c.name for c in folding.columns}
    own = [names.get(n, n) for n in key]
    rows = run.current.rows_with(texts_of(others, own), (*COORDINATES, IS_DELETED, *own))
    last = {tuple(row[n] for n in own): row for row in rows}
    folded = folding.coverage - folding.changed
    whole, decode = {place_of(row) for row in last.values()} - {*found}, run.stream.decode
    if decode is not None and decode.value.unavailable is not None:  # or it has values of before
        places = ranges_of(whole, state.head)
        pieces = rows_at(typed, places, (UNAVAILABLE,)) if whole else ()
        whole -= {place_of(row) for row in pieces if row[UNAVAILABLE]}

    def stays(values: Values) -> bool:
        """Whether the row is what it is by its last change alone, and that is not found."""
        return (
            values in last
            and place_of(last[values]) in whole
            and all(intersect([_one(o)], folded[i]) for i, o in mine[values])
        )

    return Histories(
        key,
        len(others),
        sum(bool(last[values][IS_DELETED]) for values in others if values in last),
        sum(not stays(values) for values in others) + keyless,
        frozenset(place for places in others.values() for place in places),
        keyless,
    )


def current_key(run: RunContext, state: LedgerState) -> tuple[str, ...]:
    """The columns of the current table's key; none for a stream without one."""
    if state.folding.layout is not None:
        return state.folding.layout.key
    section = run.stream.current
    return () if section is None else tuple(section.key or key_of(state))


def key_of(state: LedgerState) -> tuple[str, ...]:
    """The columns that are made of Kafka's key."""
    parts = (p for p in state.decoding.parts if p.part == "key")
    return tuple(c.name for p in parts for c in p.reader.in_table)


def ranges_of(places: Iterable[Place], head: Head) -> tuple[CoordinateRange, ...]:
    """Places as ranges with their topics' names."""
    return Places.of_pieces((log, _one(o)) for log, o in places).ranges(head.topic_names)


def _one(offset: int) -> OffsetRange:
    return OffsetRange(offset, offset + 1)


def texts_of(keys: Iterable[Values], names: Sequence[str]) -> list[dict[str, Any]]:
    """Keys as `rows_with` takes them."""
    return [dict(zip(names, map(_text, values), strict=True)) for values in keys]


def _text(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bytes):
        return value.hex()
    return f"{value:f}" if isinstance(value, Decimal) else str(value)
