"""What a fold makes of rows and changes, known before anything is written.

Few changes are sent to every task, and only rows that have one are merged: all others are read,
summed and copied as they are, none is shuffled, and a bucket's rows stay in their order. Where a
change says something of all rows, or many keys have one, both sides are put together by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from tideline.folding.spark.changes import NEW, row_columns
from tideline.folding.spark.merging import HAS_OLD, beside, is_dropped, same_key
from tideline.folding.spark.sums import bucket_states, bucket_sums, looked_at, standing_sums
from tideline.model.current import BUCKET, Barrier, BucketState, FoldPlan, Refusal, replaced

_MOST_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Made:
    """What touched buckets hold before and after, and the rows to be written.

    Args:
        found, left: What they hold before, and after.
        refused: What keeps it from being written.
        doubted: Buckets that have to be folded anew.
        in_order: Rows that stand by bucket and key, as the files do that they are read from.
        loose: Rows that have to be put together.
    """

    found: tuple[BucketState, ...]
    left: tuple[BucketState, ...]
    refused: tuple[Refusal, ...]
    doubted: tuple[int, ...]
    in_order: DataFrame | None
    loose: DataFrame

    def rows(self, plan: FoldPlan) -> DataFrame:
        """All rows, those of a bucket together and sorted by key."""
        by_bucket = self.loose.repartition(F.col(BUCKET))
        put_together = by_bucket.sortWithinPartitions(BUCKET, *plan.layout.key)
        return put_together if self.in_order is None else self.in_order.unionByName(put_together)


def of_all(
    plan: FoldPlan,
    standing: DataFrame | None,
    latest: DataFrame,
    barrier: Barrier | None,
) -> Made:
    """Merge each row.

    Args:
        standing: The touched buckets' rows; None for none.
        latest: The last change of each key.
        barrier: The last change that said that all rows are gone.
    """
    pairs = beside(plan, standing, latest, "full_outer", barrier)
    looked = looked_at(plan, pairs, barrier)
    sums = bucket_sums(looked)
    found, left = (bucket_states(sums, name) for name in ("found", "left"))
    return _made(sums, found, left, None, _table_rows(plan, looked))


def of_few(
    plan: FoldPlan,
    tidy: DataFrame | None,
    untidy: DataFrame | None,
    latest: DataFrame,
    barrier: Barrier | None,
    kept: ExitStack,
) -> Made:
    """Merge rows that have a change; nothing is to be said of the others.

    Args:
        tidy, untidy: The touched buckets' rows, in few files and in many; None for none.
        latest, barrier: As of `of_all`; the changes are few.
        kept: Takes what is to be done when the fold has ended.
    """
    standing = [rows for rows in (tidy, untidy) if rows is not None]
    known, everything = None, tuple[BucketState, ...]()
    if standing:
        keys = F.broadcast(latest.select(*(F.col(n).alias(f"{NEW}{n}") for n in plan.layout.key)))
        found = [r.join(keys, same_key(plan, r, NEW), "left_semi") for r in standing]
        known = F.broadcast(keep(union(found), kept))
        everything = bucket_states(standing_sums(plan, union(standing)), "found")
    pairs = beside(plan, known, latest, "left_outer", barrier)
    looked = keep(looked_at(plan, pairs, barrier), kept)
    sums = bucket_sums(looked)
    left = replaced(everything, bucket_states(sums, "found"), bucket_states(sums, "left"))
    fresh = _table_rows(plan, looked.filter(~F.col(HAS_OLD)))
    in_order = None if tidy is None else _with(plan, tidy, looked)
    loose = fresh if untidy is None else _with(plan, untidy, looked).unionByName(fresh)
    return _made(sums, everything, left, in_order, loose)


def _with(plan: FoldPlan, rows: DataFrame, made: DataFrame) -> DataFrame:
    """Rows, with those that were merged in their place; they are few."""
    names, keys = row_columns(plan), plan.layout.key
    others = made.filter(HAS_OLD).select(*(F.col(n).alias(f"{NEW}{n}") for n in names))
    joined = rows.join(F.broadcast(others), same_key(plan, rows, NEW), "left_outer")
    is_merged = F.col(f"{NEW}offset").isNotNull()
    chosen = {n: F.when(is_merged, F.col(f"{NEW}{n}")).otherwise(rows[n]) for n in names}
    made = joined.select(*(rows[n] if n in keys else chosen[n].alias(n) for n in names), BUCKET)
    return _table_rows(plan, made)


def _table_rows(plan: FoldPlan, rows: DataFrame) -> DataFrame:
    """The table's columns of rows that are not dropped."""
    kept = rows.filter(~is_dropped(plan, {n: F.col(n) for n in row_columns(plan)}))
    return kept.select(*row_columns(plan), BUCKET)


def _made(
    sums: Sequence[Row],
    found: tuple[BucketState, ...],
    left: tuple[BucketState, ...],
    in_order: DataFrame | None,
    loose: DataFrame,
) -> Made:
    doubted = tuple(sorted(row[BUCKET] for row in sums if row["doubted"]))
    return Made(found, left, refusals(sums), doubted, in_order, loose)


def refusals(sums: Sequence[Row]) -> tuple[Refusal, ...]:
    """The first few keys that have no place in the table.

    Args:
        sums: As of `bucket_sums`.
    """
    moved = [Refusal("moved", row["moved"]) for row in sums if row["moved"] is not None]
    return tuple(moved[:_MOST_SHOWN])


def keep(rows: DataFrame, kept: ExitStack) -> DataFrame:
    """The rows in Spark's memory, until the fold has ended."""
    found = rows.persist()
    kept.callback(found.unpersist)
    return found


def union(parts: Sequence[DataFrame]) -> DataFrame:
    """The rows of all parts; there is one at least."""
    first, *others = parts
    for part in others:
        first = first.unionByName(part)
    return first
