"""Typed rows as changes of keys, and the last change of each key by one total order.

A change whose key is null in every column belongs to no row: it is counted, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from tideline.model.current import (
    BUCKET,
    COORDINATES,
    ERA,
    IS_DELETED,
    Barrier,
    Floor,
    FoldPlan,
    order_names,
)
from tideline.model.decoding import UNAVAILABLE
from tideline.spark.coordinates import Transform
from tideline.table.schema import TYPED_COLUMNS, current_columns, delta_field, delta_fields

IS_TRUNCATE = "_tideline_is_truncate"
ORDER, NEW, OLDEST = "_tideline_order", "_tideline_new_", "_tideline_oldest"
FIRST, LAST = "_tideline_low", "_tideline_high"
FILLED, GONE, _LAST = "_tideline_filled_", "_tideline_gone", "_tideline_last"


def typed_schema(plan: FoldPlan) -> StructType:
    """What is read of the typed table."""
    own = [*COORDINATES, plan.deletes.column]
    own += ["is_tombstone"] if plan.deletes.tombstones else []
    own += ["op"] if plan.has_truncates else []
    own += [UNAVAILABLE] if plan.has_unavailable else []
    own += [c.source for c in plan.sequence]
    rows = {c.source: c.type for c in plan.columns}
    fields = [f for f in delta_fields(TYPED_COLUMNS) if f["name"] in own and f["name"] not in rows]
    fields += [delta_field(name, kind) for name, kind in rows.items()]
    return StructType.fromJson({"type": "struct", "fields": fields})


def row_columns(plan: FoldPlan) -> list[str]:
    """The names of the current table's columns but for the bucket."""
    return [str(field["name"]) for field in current_columns(plan)[:-1]]


def current_schema(plan: FoldPlan) -> StructType:
    """The current table's columns, in order."""
    return StructType.fromJson({"type": "struct", "fields": [*current_columns(plan)]})


def changes(plan: FoldPlan) -> Transform:
    """The current table's columns of each typed row, with its bucket and its place in the order.

    A deleted row has its key, and no other value.
    """

    def transform(rows: DataFrame) -> DataFrame:
        is_deleted = _is_deleted(plan)
        made = {c.name: F.col(c.source) for c in plan.columns}
        for column in plan.columns:
            if column.name not in plan.layout.key:
                made[column.name] = F.when(~is_deleted, F.col(column.source))
        if plan.has_unavailable:
            made[UNAVAILABLE] = F.when(~is_deleted, F.col(UNAVAILABLE))
        made |= {c.name: F.col(c.source) for c in plan.sequence}
        made[IS_DELETED] = is_deleted
        is_truncate = F.col("op") == "t" if plan.has_truncates else F.lit(False)
        named = [made.get(name, F.col(name)).alias(name) for name in row_columns(plan)]
        chosen = rows.select(*named, F.coalesce(is_truncate, F.lit(False)).alias(IS_TRUNCATE))
        return chosen.withColumns({BUCKET: bucket_of(plan), ORDER: order_of(plan)})

    return transform


def _is_deleted(plan: FoldPlan) -> Column:
    found = F.col("is_tombstone") if plan.deletes.tombstones else F.lit(False)
    if plan.deletes.column is not None:
        said = F.col(plan.deletes.column).cast("string") == plan.deletes.equals
        found |= F.coalesce(said, F.lit(False))
    return found | is_below(plan, plan.floors, F.col)


def is_below(plan: FoldPlan, floors: tuple[Floor, ...], of: Callable[[str], Column]) -> Column:
    """Whether a row's last change is below floors.

    Args:
        floors: One for each partition of the newest topic id, or none.
        of: Gives a coordinate of it.
    """
    found = F.lit(False)
    for topic_id in sorted({floor.topic_id for floor in floors}):
        here = {floor.partition: floor for floor in floors if floor.topic_id == topic_id}
        partitions = range(max(here) + 1)
        # A topic may have thousands of partitions: a condition for each would overflow the stack.
        generation = _looked_up([here[n].generation if n in here else -1 for n in partitions], of)
        offset = _looked_up([here[n].offset if n in here else -1 for n in partitions], of)
        is_older = of("generation") < generation
        is_older |= (of("generation") == generation) & (of("offset") < offset)
        found |= (of("topic_id") == topic_id) & is_older
    if eras := plan.eras_below(floors):
        found |= of("topic_id").isin(*eras)
    return F.coalesce(found, F.lit(False))


def _looked_up(numbers: Sequence[int], of: Callable[[str], Column]) -> Column:
    """The number of a row's partition, of a constant list; null behind its end."""
    listed = F.split(F.lit(",".join(map(str, numbers))), ",").cast("array<bigint>")
    return F.get(listed, of("partition"))


def is_unordered(plan: FoldPlan) -> Column:
    """Whether a change of a key has no place in a declared order."""
    found = F.lit(False)
    for column in plan.sequence if plan.order == "sequence" else ():
        found |= F.col(column.name).isNull()
    return found & ~is_keyless(plan)


def is_keyless(plan: FoldPlan) -> Column:
    """Whether a change has no key."""
    return F.coalesce(*(F.col(name).cast("string") for name in plan.layout.key)).isNull()


def key_text(plan: FoldPlan) -> Column:
    """A key's canonical text: its columns as texts, in a list of JSON's."""
    types = {c.name: c.type for c in plan.columns}
    return F.to_json(
        F.array(
            *(
                F.hex(F.col(name)) if types[name] == "binary" else F.col(name).cast("string")
                for name in plan.layout.key
            )
        )
    )


def bucket_of(plan: FoldPlan) -> Column:
    """The bucket that a key is in."""
    number = F.pmod(F.xxhash64(key_text(plan)), F.lit(plan.layout.buckets).cast("bigint"))
    return number.cast("int")


def era_of(plan: FoldPlan, topic_id: Column) -> Column:
    """Which incarnation of the topic a row is of; a later one counts more."""
    if len(plan.eras) == 1:
        return F.lit(0)
    known = [part for n, name in enumerate(plan.eras) for part in (F.lit(name), F.lit(n))]
    return F.create_map(*known)[topic_id]


def order_of(plan: FoldPlan, of: Mapping[str, Column] | None = None) -> Column:
    """A row's place in the one total order of the table.

    Args:
        of: The coordinates of a row; those of the row itself if not given.
    """
    at = of or {name: F.col(name) for name in placing(plan)}
    era = era_of(plan, at["topic_id"])
    return F.struct(*((era if n == ERA else at[n]).alias(n) for n in order_names(plan)))


def placing(plan: FoldPlan) -> tuple[str, ...]:
    """The columns that say where a row is in the order."""
    return (*COORDINATES, *(c.name for c in plan.sequence))


def barrier_order(plan: FoldPlan, barrier: Barrier) -> Column:
    """The place of a change that said that all rows are gone."""
    kinds = {"generation": "int", "partition": "int", "offset": "bigint"}
    at = {n: F.lit(getattr(barrier, n)) for n in COORDINATES}
    return order_of(plan, at | {n: at[n].cast(kind) for n, kind in kinds.items()})


def fillable(plan: FoldPlan) -> list[str]:
    """Columns that a change may lack, if it may lack any."""
    if not plan.has_unavailable:
        return []
    names = [c.name for c in plan.columns if c.name not in plan.layout.key]
    kinds = {c.name: c.type for c in plan.columns}
    return [n for n in names if kinds[n] in ("string", "binary") or isinstance(kinds[n], dict)]


def newest(plan: FoldPlan) -> Transform:
    """One row a key: its last change, and what is to be known of the others.

    `NEW` begins the names of the change's columns, `OLDEST` is the place of the first one, `FIRST`
    and `LAST` the smallest and the largest partition among those of the newest topic id. Of each
    column that a change may lack there is the newest value that came, with its place; `GONE` is
    the place of the last change that said that the row is gone.
    """
    others = [n for n in row_columns(plan) if n not in plan.layout.key]
    order = F.col(ORDER)
    era = era_of(plan, F.col("topic_id"))
    aggregates = [
        F.max_by(F.struct(*others), order).alias(_LAST),
        F.min(order).alias(OLDEST),
        F.max(F.struct(era.alias("era"), (-F.col("partition")).alias("place"))).alias(FIRST),
        F.max(F.struct(era.alias("era"), F.col("partition").alias("place"))).alias(LAST),
    ]
    if plan.has_unavailable:
        aggregates.append(F.max(F.when(F.col(IS_DELETED), order)).alias(GONE))
    for name in fillable(plan):
        came = ~F.col(IS_DELETED) & ~lacks(F.col(UNAVAILABLE), name)
        value = F.struct(order.alias("at"), F.col(name).alias("value"))
        aggregates.append(F.max_by(value, F.when(came, order)).alias(f"{FILLED}{name}"))
    flat = {f"{NEW}{n}": F.col(_LAST)[n] for n in others}
    return lambda rows: (
        rows.groupBy(BUCKET, *plan.layout.key).agg(*aggregates).withColumns(flat).drop(_LAST)
    )


def is_after(
    plan: FoldPlan, one: Callable[[str], Column], other: Callable[[str], Column]
) -> Column:
    """Whether a row is after another one, compared column by column.

    Args:
        one, other: Give a column of each.
    """
    found = F.lit(False)
    for name in reversed(order_names(plan)):
        if name == ERA and len(plan.eras) == 1:
            continue
        of = (lambda o: era_of(plan, o("topic_id"))) if name == ERA else (lambda o, n=name: o(n))
        left, right = of(one), of(other)
        found = (left > right) | ((left == right) & found)
    return found


def lacks(unavailable: Column, name: str) -> Column:
    """Whether a change did not bring a column's value."""
    return F.coalesce(F.array_contains(unavailable, name), F.lit(False))
