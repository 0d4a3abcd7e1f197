"""A key's row and its changes become its new row.

Rows and changes are few here: those of a window that have something to do with each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.folding.arrow.changes import Latest, fillable, lacks
from tideline.folding.arrow.hashing import is_valid
from tideline.folding.arrow.row_shape import RowShape, nulled
from tideline.folding.arrow.total_order import (
    Order,
    at,
    eras,
    is_after,
    is_truncated,
    numbers,
    orders,
    rows_below,
)
from tideline.model.current import COORDINATES, IS_DELETED, Barrier
from tideline.model.decoding import UNAVAILABLE


@dataclass(frozen=True)
class MergedRows:
    """What becomes of some keys.

    Args:
        rows: Their rows, in the order of the keys.
        is_dropped: Which of them are gone, and need not be kept.
        moved: Which of the keys stand in two partitions of one incarnation.
        doubted: How many rows were filled from a change that nobody knows.
    """

    rows: pa.RecordBatch
    is_dropped: np.ndarray
    moved: np.ndarray
    doubted: int


def merged(
    shape: RowShape, old: pa.RecordBatch, place: np.ndarray, latest: Latest, barrier: Barrier | None
) -> MergedRows:
    """The new rows of keys that have changes: of row and change the later; of equals, the change.

    Args:
        old: Rows as they stand.
        place: Of each key which of these is its row; -1 for none.
        latest: The keys' changes.
        barrier: The last change that said that all rows are gone.
    """
    plan, has_old = shape.plan, place >= 0
    new = latest.rows
    rows = _taken(old, place) if has_old.any() else new
    standing, coming, every = orders(plan, rows, new, latest.every)
    takes = ~has_old | ~is_after(standing, coming)
    made = chosen(takes, new, rows)
    is_swept = has_old & rows_below(plan, plan.floors, rows) & ~flags(rows)
    if (stays := is_swept & ~takes).any():
        made = ended(made, stays, (*plan.layout.key, *COORDINATES))
    outlived = has_old & ~flags(rows) & ~is_swept
    if plan.has_unavailable:
        made = _filled(
            shape, made, rows, latest, (takes, has_old, outlived), (standing, every), barrier
        )
    made, is_gone = after_barrier(shape, made, barrier)
    moved = np.zeros(len(new), bool)
    if plan.order == "offset":
        is_same = has_old & (eras(plan, rows) == eras(plan, new))
        moved = is_same & (numbers(rows, "partition") != numbers(new, "partition"))
        moved |= latest.low != latest.high
    doubted = np.zeros(len(new), bool)
    if plan.has_unavailable:
        oldest = is_after(standing, at(every, latest.oldest)) | (barrier != plan.barrier)
        doubted = has_old & oldest & is_filled(rows) & ~is_gone
    return MergedRows(made, is_dropped(shape, made), moved, int(np.count_nonzero(doubted)))


def untouched(
    shape: RowShape, rows: pa.RecordBatch, barrier: Barrier | None
) -> tuple[np.ndarray, MergedRows]:
    """What becomes of rows without a change, where something is said of all rows.

    Returns:
        Which of them become others or are dropped; and what they become.
    """
    plan = shape.plan
    is_swept = rows_below(plan, plan.floors, rows) & ~flags(rows)
    is_gone = is_truncated(plan, barrier, rows)
    others = is_swept | (is_gone & ~flags(rows)) | is_dropped(shape, rows)
    doubted = 0
    if plan.has_unavailable and barrier != plan.barrier:
        doubted = int(np.count_nonzero(is_filled(rows) & ~is_gone))
    which = np.flatnonzero(others)
    made = rows.take(pa.array(which))
    if is_swept.any():
        made = ended(made, is_swept[which], (*plan.layout.key, *COORDINATES))
    made, _ = after_barrier(shape, made, barrier)
    moved = np.zeros(len(which), bool)
    return which, MergedRows(made, is_dropped(shape, made), moved, doubted)


def _taken(rows: pa.RecordBatch, place: np.ndarray) -> pa.RecordBatch:
    """The rows at some places; at -1 one that has a place and no values, which nobody looks at.

    A row's values are taken once: thousands of a large one would be more than memory bears.
    """
    some, values = pa.array(np.maximum(place, 0)), pa.array(place, mask=place < 0)
    own = (*COORDINATES, IS_DELETED)
    columns = [
        column.take(some if name in own else values)
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def chosen(is_one: np.ndarray, one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    """Of each pair of rows the first one or the second one."""
    if is_one.all():
        return one
    which = np.where(is_one, 0, len(one)) + np.arange(len(one))
    return pa.concat_batches([one, other]).take(pa.array(which))


def flags(rows: pa.RecordBatch) -> np.ndarray:
    """Which rows are of keys that are gone."""
    return np.asarray(rows.column(IS_DELETED))


def is_filled(rows: pa.RecordBatch) -> np.ndarray:
    """Which rows have values that their last change did not bring."""
    lengths = pc.list_value_length(rows.column(UNAVAILABLE))
    return np.asarray(pc.fill_null(pc.greater(lengths, 0), False))


def is_dropped(shape: RowShape, rows: pa.RecordBatch) -> np.ndarray:
    """Which rows are of keys that are gone, below what is dropped."""
    found: np.ndarray = flags(rows) & rows_below(shape.plan, shape.plan.drops, rows)
    return found


def after_barrier(
    shape: RowShape, rows: pa.RecordBatch, barrier: Barrier | None
) -> tuple[pa.RecordBatch, np.ndarray]:
    """Rows without the values of those before a barrier, which stay at their own last changes."""
    is_gone = is_truncated(shape.plan, barrier, rows)
    if not is_gone.any():
        return rows, is_gone
    kept = (*shape.plan.layout.key, *COORDINATES, *(c.name for c in shape.plan.sequence))
    return ended(rows, is_gone, kept), is_gone


def ended(rows: pa.RecordBatch, which: np.ndarray, kept: tuple[str, ...]) -> pa.RecordBatch:
    """Rows of which some are of keys that are gone.

    Args:
        kept: Columns that these keep.
    """
    columns = []
    for name, column in zip(rows.schema.names, rows.columns, strict=True):
        if name == IS_DELETED:
            columns.append(pc.or_(column, pa.array(which)))
        else:
            columns.append(column if name in kept else nulled(column, which))
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


def _filled(
    shape: RowShape,
    made: pa.RecordBatch,
    rows: pa.RecordBatch,
    latest: Latest,
    masks: tuple[np.ndarray, np.ndarray, np.ndarray],
    places: tuple[Order, Order],
    barrier: Barrier | None,
) -> pa.RecordBatch:
    """Rows with the values that the last change did not bring: the newest that came before it.

    Args:
        masks: Where the change counts; where a row stands; and where its values count.
        places: Of the rows that stand, and of all changes.
    """
    plan, (takes, has_old, stands), (standing, every) = shape.plan, masks, places
    columns = {n: made.column(n) for n in made.schema.names}
    is_live, before_barrier = ~flags(made), is_truncated(plan, barrier, latest.every)
    has_gone, gone = latest.gone >= 0, at(every, np.maximum(latest.gone, 0))
    stands = stands & (~has_gone | is_after(standing, gone)) & ~is_truncated(plan, barrier, rows)
    for name in fillable(plan):
        is_lacking = is_live & lacks(made, name)
        if not is_lacking.any():
            continue
        which, old = latest.came[name], rows.column(name)
        has_came, came = which >= 0, at(every, np.maximum(which, 0))
        is_newer = has_came & (~has_old | is_after(came, standing))
        is_newer &= (~has_gone | is_after(came, gone)) & ~before_barrier[np.maximum(which, 0)]
        is_kept = stands & is_valid(old)
        from_change = np.where(takes, is_newer, ~is_kept & has_came)
        is_null = is_lacking & ~from_change & ~is_kept
        source = np.where(is_lacking, np.where(from_change, 1, 2), 0)
        value = latest.every.column(name).take(pa.array(which, mask=~(is_lacking & from_change)))
        index = source * len(made) + np.arange(len(made))
        parts = pa.concat_arrays([columns[name], value, old])
        columns[name] = parts.take(pa.array(index, mask=is_null))
    return pa.RecordBatch.from_arrays([*columns.values()], schema=made.schema)
