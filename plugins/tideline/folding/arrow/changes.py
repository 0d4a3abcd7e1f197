"""Typed rows as changes of keys, and the last change of each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.folding.arrow.castable import is_text
from tideline.folding.arrow.hashing import SEED, add_column, is_valid
from tideline.folding.arrow.keys import (
    buckets_of,
    comparable,
    is_keyless,
    key_texts,
    ranked,
)
from tideline.folding.arrow.row_shape import TOPIC_ID, RowShape, nulled
from tideline.folding.arrow.total_order import eras, numbers, orders, rows_below
from tideline.model.current import COORDINATES, IS_DELETED, FoldPlan, FoldRefusal
from tideline.model.decoding import UNAVAILABLE
from tideline.model.placeholders import placeholders


@dataclass(frozen=True)
class ChangeMasks:
    """What typed rows say; each mask has one bit for each row.

    Args:
        typed: The rows.
        rows: The same in the current table's columns.
        deletes: Change events that say by themselves that their row is gone.
        follows: Records without a value, which are of no row.
        truncates: Those that say that all rows are gone.
    """

    typed: pa.RecordBatch
    rows: pa.RecordBatch
    deletes: np.ndarray
    follows: np.ndarray
    truncates: np.ndarray


@dataclass
class CountedChanges:
    """What is to be known of changes beside the last one of each key.

    Args:
        rows: How many there are.
        keyless: Those without a key, but for truncates.
        truncates: Those that say that all rows are gone.
        unordered: The largest key of a change that has no place in a declared order.
        no_key: The largest place of a delete without a key, where the record's is not decoded.
        hears: Is told of all changes, where a delete may lack a column of the key.
    """

    rows: int = 0
    keyless: int = 0
    truncates: list[pa.RecordBatch] = field(default_factory=list)
    unordered: str | None = None
    no_key: str | None = None
    hears: Callable[[ChangeMasks], None] = lambda masks: None

    @property
    def refused(self) -> list[FoldRefusal]:
        """Changes that have no place, but for those of a truncate."""
        found = (
            [] if self.no_key is None else [FoldRefusal("untold", f"{self.no_key} without a key")]
        )
        return (
            found if self.unordered is None else [FoldRefusal("unordered", self.unordered), *found]
        )


def of_rows(shape: RowShape, counted: CountedChanges, typed: pa.RecordBatch) -> pa.RecordBatch:
    """The current table's columns of each typed row that says something of one row.

    A deleted row has its key, and no other value.

    Args:
        counted: Is told of all rows.
        typed: Rows at the plan's coordinates.
    """
    plan = shape.plan
    says = _deletes(plan, shape, typed)
    is_deleted = says | rows_below(plan, plan.floors, typed)
    made = {c.name: typed.column(c.source) for c in plan.columns}
    made |= {n: nulled(v, is_deleted) for n, v in made.items() if n not in plan.layout.key}
    if plan.has_unavailable:
        made[UNAVAILABLE] = nulled(_renamed(plan, typed.column(UNAVAILABLE)), is_deleted)
    made |= {c.name: typed.column(c.source) for c in plan.sequence}
    made |= {name: typed.column(name) for name in COORDINATES}
    made[IS_DELETED] = pa.array(is_deleted)
    rows = pa.RecordBatch.from_arrays([made[n] for n in shape.schema.names], schema=shape.schema)
    is_truncate = _is(typed, "op", "t") if plan.has_truncates else np.zeros(len(typed), bool)
    without_key = is_keyless([rows.column(n) for n in plan.layout.key])
    follows = _flag(typed, "is_tombstone") if plan.deletes.passes else np.zeros(len(typed), bool)
    counted.rows += len(rows)
    counted.keyless += int(np.count_nonzero(without_key & ~is_truncate))
    if is_truncate.any():
        counted.truncates.append(rows.filter(pa.array(is_truncate)))
    deletes = _says_deleted(plan, shape, typed) & ~is_truncate
    counted.hears(ChangeMasks(typed, rows, deletes, follows, is_truncate))
    # where the record's key is decoded, it says whether a row of it stays
    lost = without_key & deletes & (not plan.deletes.told)
    for n in np.flatnonzero(lost).tolist():
        place = f"{rows.column('partition')[n].as_py()}@{rows.column('offset')[n].as_py()}"
        counted.no_key = max(place, counted.no_key or "")
    kept = rows.filter(pa.array(~without_key & ~is_truncate & ~follows))
    _note_unordered(shape, counted, kept)
    return kept


def _note_unordered(shape: RowShape, counted: CountedChanges, rows: pa.RecordBatch) -> None:
    plan = shape.plan
    lacking = np.zeros(len(rows), bool)
    for column in plan.sequence if plan.order == "sequence" else ():
        lacking |= ~is_valid(rows.column(column.name))
    if lacking.any():
        names = ", ".join(c.source for c in plan.sequence)
        keys = texts_of_keys(shape, rows.filter(pa.array(lacking))).to_pylist()
        counted.unordered = max(f"{max(keys)} without {names}", counted.unordered or "")


def texts_of_keys(shape: RowShape, rows: pa.RecordBatch) -> pa.Array:
    """The canonical texts of the rows' keys."""
    key = shape.plan.layout.key
    return key_texts([rows.column(n) for n in key], [shape.kinds[n] for n in key])


def _is(typed: pa.RecordBatch, name: str, text: str) -> np.ndarray:
    return np.asarray(pc.fill_null(pc.equal(typed.column(name), text), False))


def _flag(typed: pa.RecordBatch, name: str) -> np.ndarray:
    """A column of booleans without nulls."""
    return np.asarray(pc.fill_null(typed.column(name), False))


def _renamed(plan: FoldPlan, column: pa.Array) -> pa.Array:
    """The columns whose values did not come, by their names in the table."""
    names = plan.renamed
    if not names or column.null_count == len(column):
        return column
    listed = [None if v is None else [names.get(n, n) for n in v] for v in column.to_pylist()]
    return pa.array(listed, column.type)


def _deletes(plan: FoldPlan, shape: RowShape, typed: pa.RecordBatch) -> np.ndarray:
    """Whether a change itself says that its row is gone."""
    is_tombstone = plan.deletes.tombstones
    found = _flag(typed, "is_tombstone") if is_tombstone else np.zeros(len(typed), bool)
    for name, text in plan.marks:
        found = found | _says(shape, typed, name, text)
    return found


def _says_deleted(plan: FoldPlan, shape: RowShape, typed: pa.RecordBatch) -> np.ndarray:
    """Whether a change event says by itself that its row is gone."""
    if plan.has_truncates:
        return _is(typed, "op", "d")
    name = plan.deletes.column
    if name is None or (name != "__deleted" and not plan.deletes.told):
        return np.zeros(len(typed), bool)
    return _says(shape, typed, name, plan.deletes.equals)


def _says(shape: RowShape, typed: pa.RecordBatch, name: str, text: str) -> np.ndarray:
    """Whether a column has a text."""
    return is_text(typed.column(name), str(shape.typed_kinds[name]), text)


def fillable(plan: FoldPlan) -> list[str]:
    """Columns that a change may lack, if it may lack any."""
    if not plan.has_unavailable:
        return []
    rows = (c for c in plan.columns if c.name not in plan.layout.key)
    return [c.name for c in rows if placeholders(UNAVAILABLE, c.type)]


def lacks(rows: pa.RecordBatch, name: str) -> np.ndarray:
    """Whether each row's last change did not bring a column's value."""
    column, found = rows.column(UNAVAILABLE), np.zeros(len(rows), bool)
    if column.null_count < len(column):
        is_it = pc.fill_null(pc.equal(column.flatten(), name), False)
        found[np.asarray(pc.list_parent_indices(column))[np.asarray(is_it)]] = True
    return found


@dataclass(frozen=True)
class Latest:
    """The last change of each key, sorted by key, and what is to be known of the others.

    Args:
        rows: The last changes.
        keys: Their keys.
        low, high: The smallest and the largest partition among changes of the key's newest
            incarnation.
        every: All changes, sorted by key and place, where columns may lack; else the last ones.
        oldest: Of each key, which of `every` is the first.
        ends: Of each key, which of `every` is the first behind its own.
        gone: Of each key, which is the last one that deletes; -1 for none.
        came: Of each key and column that may lack, which brought its value last; -1 for none.
    """

    rows: pa.RecordBatch
    keys: np.ndarray
    low: np.ndarray
    high: np.ndarray
    every: pa.RecordBatch
    oldest: np.ndarray
    ends: np.ndarray
    gone: np.ndarray
    came: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def of(self) -> np.ndarray:
        """Of each of `every` the number of its key."""
        return np.repeat(np.arange(len(self)), self.ends - self.oldest)

    @property
    def telling(self) -> np.ndarray:
        """Which of `every` tell all that is known here; the others may be forgotten."""
        if len(self.every) == len(self):
            return np.arange(len(self))
        marks = np.concatenate([self.oldest, self.ends - 1, self.gone, *self.came.values()])
        return np.unique(marks[marks >= 0])

    def part(self, start: int, end: int) -> Latest:
        """Of some keys; `end` is exclusive."""
        first = int(self.oldest[start]) if end > start else 0
        last = int(self.ends[end - 1]) if end > start else 0
        gone = self.gone[start:end]
        came = {name: which[start:end] for name, which in self.came.items()}
        return Latest(
            self.rows.slice(start, end - start),
            self.keys[start:end],
            self.low[start:end],
            self.high[start:end],
            self.every.slice(first, last - first),
            self.oldest[start:end] - first,
            self.ends[start:end] - first,
            np.where(gone >= 0, gone - first, -1),
            {name: np.where(which >= 0, which - first, -1) for name, which in came.items()},
        )


def hashes_of_places(shape: RowShape, rows: pa.RecordBatch) -> np.ndarray:
    """A hash of each row's key and of the place of its change; Kafka's time is none of it."""
    plan, found = shape.plan, np.full(len(rows), SEED, np.uint64)
    add_column(found, texts_of_keys(shape, rows), "string")
    add_column(found, rows.column(TOPIC_ID).dictionary_decode(), "string")
    for name in (*COORDINATES[1:-1], *(c.name for c in plan.sequence)):
        add_column(found, rows.column(name), shape.kinds[name])
    return found


def buckets(shape: RowShape, rows: pa.RecordBatch) -> np.ndarray:
    """The bucket that each row's key is in."""
    return buckets_of(texts_of_keys(shape, rows), shape.plan.layout.buckets)


def newest(
    shape: RowShape,
    rows: pa.RecordBatch,
    groups: np.ndarray,
    extremes: tuple[np.ndarray, np.ndarray] | None = None,
) -> tuple[Latest, np.ndarray]:
    """The last change of each key, by group and key; and the group of each.

    Args:
        rows: Changes in any order.
        groups: Of each the number of its key's group.
        extremes: Of each `low` and `high`, as of `Latest`; its own partition if not given.
    """
    plan = shape.plan
    columns = [rows.column(n) for n in plan.layout.key]
    codes = [ranked(column)[0] for column in columns]
    (order,) = orders(plan, rows)
    sorted_by = np.lexsort((*reversed(order), *reversed(codes), groups))
    is_first = np.ones(len(rows), bool)
    if len(rows):
        is_first[1:] = False
        for code in codes:
            is_first[1:] |= np.diff(code[sorted_by]) != 0
    starts = np.flatnonzero(is_first)
    ends = np.append(starts[1:], len(rows))[: len(starts)] - 1
    last = sorted_by[ends]
    latest = rows.take(pa.array(last))
    low, high = _extremes(plan, rows, sorted_by, (starts, ends), extremes)
    keys = comparable([latest.column(n) for n in plan.layout.key])
    if not plan.has_unavailable:
        return only(latest, keys, low, high), groups[last]
    every = rows.take(pa.array(sorted_by))
    is_deleted = np.asarray(every.column(IS_DELETED))
    gone = _last_of(is_deleted, starts, ends)
    came = {
        name: _last_of(~is_deleted & ~lacks(every, name), starts, ends) for name in fillable(plan)
    }
    return Latest(latest, keys, low, high, every, starts, ends + 1, gone, came), groups[last]


def only(rows: pa.RecordBatch, keys: np.ndarray, low: np.ndarray, high: np.ndarray) -> Latest:
    """The last changes where no other one has to be known.

    Args:
        rows, keys, low, high: As of `Latest`.
    """
    which = np.arange(len(rows))
    return Latest(rows, keys, low, high, rows, which, which + 1, np.full(len(rows), -1), {})


def _last_of(mask: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Of each group the last row that a mask names; -1 for none. Groups are runs of rows."""
    if not len(mask):
        return np.empty(0, np.int64)
    found = np.maximum.accumulate(np.where(mask, np.arange(len(mask)), -1))[ends]
    return np.where(found >= starts, found, -1)


def _extremes(
    plan: FoldPlan,
    rows: pa.RecordBatch,
    sorted_by: np.ndarray,
    groups: tuple[np.ndarray, np.ndarray],
    known: tuple[np.ndarray, np.ndarray] | None,
) -> tuple[np.ndarray, np.ndarray]:
    """The smallest and the largest partition of each key's newest incarnation."""
    starts, ends = groups
    partitions = numbers(rows, "partition")
    low, high = (k[sorted_by] for k in known or (partitions, partitions))
    partitions = partitions[sorted_by]
    if not len(rows) or plan.order != "offset":
        return partitions[ends], partitions[ends]
    era = eras(plan, rows)[sorted_by]
    is_newest = era == np.repeat(era[ends], ends - starts + 1)
    least = np.minimum.reduceat(np.where(is_newest, low, np.iinfo(np.int64).max), starts)
    return least, np.maximum.reduceat(np.where(is_newest, high, -1), starts)


def as_one_batch(shape: RowShape, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Some batches as one."""
    return pa.concat_batches([shape.none, *batches])
