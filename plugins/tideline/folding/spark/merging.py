"""A bucket's rows and the last changes of keys become the bucket's new rows."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from tideline.folding.spark.changes import (
    FILLED,
    GONE,
    IS_TRUNCATE,
    NEW,
    OLDEST,
    ORDER,
    barrier_order,
    current_schema,
    fillable,
    lacks,
    order_of,
    row_columns,
)
from tideline.model.current import BUCKET, COORDINATES, IS_DELETED, Barrier, FoldPlan
from tideline.model.decoding import UNAVAILABLE

_OLD = "_old"


def beside(plan: FoldPlan, standing: DataFrame | None, latest: DataFrame, how: str) -> DataFrame:
    """Each key's row as it stands (`_old`) and its last change (`_new`); one of them may be null.

    Args:
        standing: The table's rows; None for none.
        latest: The last change of each key.
        how: `full_outer`; or `right_outer` without the changes of keys that have no row.
    """
    keys = (*plan.layout.key, BUCKET)
    others = [n for n in row_columns(plan) if n not in plan.layout.key]
    if standing is None:
        types = current_schema(plan)
        place = latest.select(OLDEST).schema[OLDEST].dataType
        kind = StructType([*(types[n] for n in others), StructField(ORDER, place)])
        return latest.withColumn(_OLD, F.lit(None).cast(kind))
    old = F.struct(*others, order_of(plan).alias(ORDER)).alias(_OLD)
    rows = standing.select(*(F.col(name).alias(f"_at_{name}") for name in keys), old)
    same = [latest[name].eqNullSafe(F.col(f"_at_{name}")) for name in keys]
    joined = latest.join(rows, same, how)
    made = {n: F.coalesce(F.col(n), F.col(f"_at_{n}")) for n in keys}
    return joined.withColumns(made).drop(*(f"_at_{n}" for n in keys))


def merged(plan: FoldPlan, barrier: Barrier | None) -> list[Column]:
    """The table's columns of a pair: of row and change the later; of equals, the change."""
    takes = takes_new()
    chosen = F.when(takes, F.col(NEW)).otherwise(F.col(_OLD))
    made: dict[str, Column] = {n: chosen[n] for n in row_columns(plan) if n not in plan.layout.key}
    for name in fillable(plan):
        made[name] = F.when(
            lacks(chosen[UNAVAILABLE], name) & ~chosen[IS_DELETED], _filled(name, takes)
        ).otherwise(chosen[name])
    if barrier is not None:
        made = _behind(plan, made, chosen, barrier)
    return [made.get(n, F.col(n)).alias(n) for n in row_columns(plan)]


def standing_only(plan: FoldPlan) -> Column:
    """The row of a pair as it stands, with its key; null for none."""
    old, keys = F.col(_OLD), plan.layout.key
    named = [(F.col(n) if n in keys else old[n]).alias(n) for n in row_columns(plan)]
    return F.when(old.isNotNull(), F.struct(*named))


def takes_new() -> Column:
    """Whether the change counts, and not the row that stands there."""
    old, new = F.col(_OLD), F.col(NEW)
    return new.isNotNull() & (old.isNull() | (new[ORDER] >= old[ORDER]))


def _filled(name: str, takes: Column) -> Column:
    """A value that the last change did not bring: the newest that came before it.

    A row that stands there has brought what it does not lack; what it lacks is filled already, from
    a change whose place nobody knows any more. Where that matters, the bucket is folded anew.
    """
    came, old = F.col(f"{FILLED}{name}"), F.col(_OLD)
    gone = F.col(GONE)
    is_newer = came.isNotNull() & (old.isNull() | (came["at"] > old[ORDER]))
    is_newer &= gone.isNull() | (came["at"] > gone)
    stands = old.isNotNull() & ~old[IS_DELETED] & (gone.isNull() | (old[ORDER] > gone))
    kept = F.when(stands, old[name])
    stale = F.coalesce(kept, came["value"])
    return F.when(takes & is_newer, came["value"]).when(takes, kept).otherwise(stale)


def _behind(
    plan: FoldPlan, made: dict[str, Column], chosen: Column, barrier: Barrier
) -> dict[str, Column]:
    """The row is gone where its last change is before the barrier."""
    is_gone = (chosen[ORDER] < barrier_order(plan, barrier)) & ~chosen[IS_DELETED]
    found = dict(made)
    for name, column in made.items():
        if name in COORDINATES:
            found[name] = F.when(is_gone, F.lit(getattr(barrier, name))).otherwise(column)
        elif name == IS_DELETED:
            found[name] = is_gone | column
        else:
            found[name] = F.when(~is_gone, column)
    return found


def has_moved() -> Column:
    """Whether a key's row and its change stand in two partitions of one topic."""
    old, new = F.col(_OLD), F.col(NEW)
    both = old.isNotNull() & new.isNotNull()
    is_same = old["topic_id"] == new["topic_id"]
    return F.coalesce(both & is_same & (old["partition"] != new["partition"]), F.lit(False))


def is_in_doubt() -> Column:
    """Whether a change is older than a row that was filled: from which one, nobody knows."""
    old = F.col(_OLD)
    is_older = F.col(OLDEST) < old[ORDER]
    return F.coalesce(is_older & (F.size(old[UNAVAILABLE]) > 0), F.lit(False))


def last_truncate(changes: DataFrame) -> dict[str, Any] | None:
    """The coordinates of the last change that said that all rows are gone."""
    last = F.max_by(F.struct(*COORDINATES), F.col(ORDER)).alias("last")
    row = changes.filter(F.col(IS_TRUNCATE)).agg(last).collect()[0]["last"]
    return None if row is None else row.asDict()
