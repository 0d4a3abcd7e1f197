"""A bucket's rows and the last changes of keys become the bucket's new rows.

Rows and changes stand beside each other in flat columns (`old` and `new` of a name): most rows have
no change, and cost a comparison with null. Structs would be made for each row, and thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tideline.folding.spark.changes import (
    FILLED,
    GONE,
    IS_TRUNCATE,
    NEW,
    OLDEST,
    ORDER,
    current_schema,
    era_of,
    fillable,
    is_after,
    is_below,
    is_truncated,
    lacks,
    order_of,
    outlives,
    placing,
    row_columns,
)
from tideline.model.current import BUCKET, COORDINATES, IS_DELETED, Barrier, FoldPlan
from tideline.model.decoding import UNAVAILABLE

_MOST = (datetime.max.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(0, 0, 1)
_LEAST = (datetime(1970, 1, 1, tzinfo=UTC) - datetime.min.replace(tzinfo=UTC)) // timedelta(0, 0, 1)
"""Microseconds from 1970 to the last and to the first year of Python's times."""
_OLD = "_tideline_old_"
HAS_OLD, TAKES, IS_GONE = "_tideline_has_old", "_tideline_takes", "_tideline_is_gone"
IS_SWEPT = "_tideline_is_swept"


def old(name: str) -> Column:
    """A column of the row as it stands."""
    return F.col(f"{_OLD}{name}")


def new(name: str) -> Column:
    """A column of the key's last change."""
    return F.col(f"{NEW}{name}")


def beside(
    plan: FoldPlan,
    standing: DataFrame | None,
    latest: DataFrame,
    how: str,
    barrier: Barrier | None,
) -> DataFrame:
    """Each key's row as it stands and its last change; one of them may be missing.

    Added are `TAKES`, whether the change counts and not the row that stands there; and `IS_GONE`,
    whether the one that counts is before the barrier; and `IS_SWEPT`, whether the row that stands
    there is below the floors, and not gone yet.

    Args:
        standing: The table's rows; None for none.
        latest: The last change of each key.
        how: `full_outer`; or `right_outer` without the changes of keys that have no row.
        barrier: The last change that said that all rows are gone.
    """
    keys = (*plan.layout.key, BUCKET)
    others = [n for n in row_columns(plan) if n not in plan.layout.key]
    if standing is None:
        types = current_schema(plan)
        none = {f"{_OLD}{n}": F.lit(None).cast(types[n].dataType) for n in others}
        joined = latest.withColumns(none | {HAS_OLD: F.lit(False)})
    else:
        rows = standing.select(
            *(F.col(n).alias(f"_tideline_at_{n}") for n in keys),
            *(F.col(n).alias(f"{_OLD}{n}") for n in others),
            F.lit(True).alias(HAS_OLD),
        )
        joined = latest.join(rows, same_key(plan, latest, "_tideline_at_"), how)
        # a row counts where it stands: in another bucket than its own it is told by both sums
        made = {n: F.coalesce(F.col(f"_tideline_at_{n}"), F.col(n)) for n in keys}
        made[HAS_OLD] = F.coalesce(F.col(HAS_OLD), F.lit(False))
        joined = joined.withColumns(made).drop(*(f"_tideline_at_{n}" for n in keys))
    is_new = new("offset").isNotNull()
    later = ~F.col(HAS_OLD) | ~is_after(plan, old, new)
    joined = joined.withColumn(TAKES, is_new & F.coalesce(later, F.lit(True)))
    swept = is_below(plan, plan.floors, old) & ~old(IS_DELETED)
    joined = joined.withColumn(IS_SWEPT, F.coalesce(swept, F.lit(False)))
    if barrier is None:
        return joined.withColumn(IS_GONE, F.lit(False))
    at = order_of(plan, {n: _chosen(n) for n in placing(plan)})
    return joined.withColumn(IS_GONE, is_truncated(plan, barrier, at))


def same_key(plan: FoldPlan, rows: DataFrame, prefix: str) -> list[Column]:
    """Whether keys are equal, in columns of other names; a key of one column is never null."""
    keys = plan.layout.key
    if len(keys) == 1:  # Spark looks up a single number much faster
        return [rows[keys[0]] == F.col(f"{prefix}{keys[0]}")]
    return [rows[n].eqNullSafe(F.col(f"{prefix}{n}")) for n in keys]


def _chosen(name: str) -> Column:
    """A column of what counts."""
    return F.when(F.col(TAKES), new(name)).otherwise(old(name))


def merged(plan: FoldPlan, barrier: Barrier | None) -> list[Column]:
    """The table's columns of a pair: of row and change the later; of equals, the change."""
    made: dict[str, Column] = {n: _chosen(n) for n in row_columns(plan) if n not in plan.layout.key}
    if plan.floors:
        stays = F.col(IS_SWEPT) & ~F.col(TAKES)
        made |= {n: F.when(~stays, c) for n, c in made.items() if n not in COORDINATES}
        made[IS_DELETED] = stays | _chosen(IS_DELETED)
    for name in fillable(plan):
        is_lacking = lacks(made[UNAVAILABLE], name) & ~made[IS_DELETED]
        made[name] = F.when(is_lacking, _filled(plan, name, barrier)).otherwise(made[name])
    if barrier is not None:  # a row that is gone stays at its own last change
        ended = {n: F.when(~F.col(IS_GONE), c) for n, c in made.items() if n not in placing(plan)}
        made |= ended | {IS_DELETED: F.col(IS_GONE) | made[IS_DELETED]}
    return [made.get(n, F.col(n)).alias(n) for n in row_columns(plan)]


def _filled(plan: FoldPlan, name: str, barrier: Barrier | None) -> Column:
    """A value that the last change did not bring: the newest that came before it.

    A row that stands there has brought what it does not lack; what it lacks is filled already, from
    a change whose place nobody knows any more. Where that matters, the bucket is folded anew.
    """
    came, gone, place = F.col(f"{FILLED}{name}"), F.col(GONE), order_of(plan, _at(plan))
    is_newer = came.isNotNull() & (~F.col(HAS_OLD) | (came["at"] > place))
    is_newer &= outlives(plan, barrier, gone, came["at"])
    stands = F.col(HAS_OLD) & ~old(IS_DELETED) & ~F.col(IS_SWEPT)
    stands &= outlives(plan, barrier, gone, place)
    kept = F.when(stands, old(name))
    stale = F.coalesce(kept, came["value"])
    return F.when(F.col(TAKES) & is_newer, came["value"]).when(F.col(TAKES), kept).otherwise(stale)


def _at(plan: FoldPlan) -> dict[str, Column]:
    return {n: old(n) for n in placing(plan)}


def is_dropped(plan: FoldPlan, row: Mapping[str, Column]) -> Column:
    """Whether a row of the table to be is one of a key that is gone, and below what is dropped."""
    if not plan.drops:
        return F.lit(False)
    return row[IS_DELETED] & is_below(plan, plan.drops, row.__getitem__)


def has_moved(plan: FoldPlan) -> Column:
    """Whether a key's row and its change stand in two partitions of one incarnation."""
    both = F.col(HAS_OLD) & new("offset").isNotNull()
    is_same = era_of(plan, old) == era_of(plan, new)
    return F.coalesce(both & is_same & (old("partition") != new("partition")), F.lit(False))


def is_in_doubt(plan: FoldPlan, barrier: Barrier | None) -> Column:
    """Whether a change is older than a row that was filled: from which one, nobody knows.

    So is one that says that all rows are gone, where it was not known when the row was filled.
    """
    is_older = F.col(OLDEST) < order_of(plan, _at(plan))
    if barrier != plan.barrier:
        is_older = F.lit(True)
    return F.coalesce(is_older & (F.size(old(UNAVAILABLE)) > 0) & ~F.col(IS_GONE), F.lit(False))


def last_truncate(changes: DataFrame) -> Barrier:
    """The last change that said that all rows are gone; there is one.

    Its time comes as a number: a time that Spark hands to Python is in the driver's own zone. One
    that Python cannot hold becomes the nearest one that it can.
    """
    told = F.coalesce(F.unix_micros("timestamp"), F.lit(-_LEAST))
    known = F.greatest(F.least(told, F.lit(_MOST)), F.lit(-_LEAST))
    micros = known.alias("micros")
    last = F.max_by(F.struct(*COORDINATES[:-1], micros), F.col(ORDER)).alias("last")
    row = changes.filter(F.col(IS_TRUNCATE)).agg(last).collect()[0]["last"].asDict()
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row.pop("micros"))
    return Barrier(**row, timestamp=at)
