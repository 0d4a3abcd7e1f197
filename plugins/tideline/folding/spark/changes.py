"""Typed rows as changes of keys, and the last change of each key by one total order.

A change whose key is null in every column belongs to no row: it is counted, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime

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
from tideline.model.placeholders import placeholders
from tideline.spark.coordinates import Transform
from tideline.spark.stored_rows import EXACT_TIMES
from tideline.spark.unset import is_unset
from tideline.table.schema import TYPED_COLUMNS, current_columns, delta_field, delta_fields

IS_TRUNCATE, FOLLOWS = "_tideline_is_truncate", "_tideline_follows"
ORDER, NEW, OLDEST = "_tideline_order", "_tideline_new_", "_tideline_oldest"
FIRST, LAST = "_tideline_low", "_tideline_high"
FILLED, GONE, _LAST = "_tideline_filled_", "_tideline_gone", "_tideline_last"
DELETES, RECORD_KEY = "_tideline_deletes", "_tideline_record_key"
UNTOLD = "_tideline_untold"
_BEGINNING = datetime(1, 1, 1, tzinfo=UTC)


def typed_schema(plan: FoldPlan) -> StructType:
    """What is read of the typed table."""
    own = [*COORDINATES, *(name for name, _ in plan.marks)]
    own += ["is_tombstone"] if plan.deletes.tombstones or plan.deletes.passes else []
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
            made[UNAVAILABLE] = F.when(~is_deleted, _renamed(plan))
        made |= {c.name: F.col(c.source) for c in plan.sequence}
        made[IS_DELETED] = is_deleted
        is_truncate = F.col("op") == "t" if plan.has_truncates else F.lit(False)
        made[IS_TRUNCATE] = F.coalesce(is_truncate, F.lit(False))
        passes = F.col("is_tombstone") if plan.deletes.passes else F.lit(False)
        made[FOLLOWS] = F.coalesce(passes, F.lit(False))
        made[DELETES] = _says_deleted(plan) & ~made[IS_TRUNCATE]
        names = [*row_columns(plan), IS_TRUNCATE, FOLLOWS, DELETES]
        if plan.deletes.told:
            made[RECORD_KEY] = record_key(plan.deletes.told)
            made[UNTOLD] = made[DELETES] & _is_unset(plan)
            names += [RECORD_KEY, UNTOLD]
        chosen = rows.select(*(made.get(name, F.col(name)).alias(name) for name in names))
        return chosen.withColumns({BUCKET: bucket_of(plan), ORDER: order_of(plan)})

    return transform


def record_key(names: Sequence[str]) -> Column:
    """A record's key as a text: that of two keys differs where the keys do."""
    return F.to_json(F.struct(*names), EXACT_TIMES)


def _is_deleted(plan: FoldPlan) -> Column:
    return _deletes(plan) | is_below(plan, plan.floors, F.col)


def _renamed(plan: FoldPlan) -> Column:
    """The columns whose values did not come, by their names in the table."""
    names = plan.renamed
    if not names:
        return F.col(UNAVAILABLE)
    known = F.create_map(*(F.lit(part) for pair in names.items() for part in pair))
    return F.transform(
        F.col(UNAVAILABLE), lambda one: F.coalesce(F.try_element_at(known, one), one)
    )


def _says_deleted(plan: FoldPlan) -> Column:
    """Whether a change event says by itself that its row is gone."""
    if plan.has_truncates:
        return F.coalesce(F.col("op") == "d", F.lit(False))
    name = plan.deletes.column
    if name is None or (name != "__deleted" and not plan.deletes.told):
        return F.lit(False)
    return F.coalesce(F.col(name).cast("string") == plan.deletes.equals, F.lit(False))


def _deletes(plan: FoldPlan) -> Column:
    """Whether a change itself says that its row is gone."""
    found = F.col("is_tombstone") if plan.deletes.tombstones else F.lit(False)
    for name, text in plan.marks:
        found |= F.coalesce(F.col(name).cast("string") == text, F.lit(False))
    return found


def _is_unset(plan: FoldPlan) -> Column:
    """Whether a column of the key may not have come with a change event that deletes."""
    types, found = {c.source: c.type for c in plan.columns}, F.lit(False)
    for name in plan.deletes.untold:
        found |= is_unset(F.col(name), types[name])
    return found


def is_below(plan: FoldPlan, floors: tuple[Floor, ...], of: Callable[[str], Column]) -> Column:
    """Whether a row's last change is below floors.

    Args:
        floors: One for each partition of the newest topic id, or none.
        of: Gives a coordinate of it.
    """
    if not floors:
        return F.lit(False)
    found = era_of(plan, of) < F.lit(plan.incarnations.of(floors[0].identity))
    for topic_id in sorted({floor.topic_id for floor in floors}):
        here = {floor.partition: floor for floor in floors if floor.topic_id == topic_id}
        partitions = range(max(here) + 1)
        # A topic may have thousands of partitions: a condition for each would overflow the stack.
        generation = _looked_up([here[n].generation if n in here else -1 for n in partitions], of)
        offset = _looked_up([here[n].offset if n in here else -1 for n in partitions], of)
        is_older = of("generation") < generation
        is_older |= (of("generation") == generation) & (of("offset") < offset)
        found |= (of("topic_id") == topic_id) & is_older
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
    return found & is_of_row(plan)


def is_of_row(plan: FoldPlan) -> Column:
    """Whether a change says something of one row: it has a key, and does not end all rows."""
    return ~is_keyless(plan) & ~F.col(IS_TRUNCATE) & ~F.col(FOLLOWS)


def is_keyless(plan: FoldPlan) -> Column:
    """Whether a change has no key."""
    return F.coalesce(*(F.col(name).cast("string") for name in plan.layout.key)).isNull()


def key_text(plan: FoldPlan) -> Column:
    """A key's canonical text: its columns as texts, in a list of JSON's.

    Buckets are made of it, so no setting of Spark's may change it.
    """
    types = {c.name: str(c.type) for c in plan.columns}
    return F.to_json(F.array(*(_text(F.col(name), types[name]) for name in plan.layout.key)))


def _text(value: Column, kind: str) -> Column:
    """A value of a key's column as a text: of a decimal its digits, never with an exponent.

    Without ANSI mode Spark writes 0.0000001 as 1E-7; the digits of what it writes are the same.
    """
    if kind == "binary":
        return F.hex(value)
    text = value.cast("string")
    scale = int(kind.rstrip(")").split(",")[1]) if kind.startswith("decimal(") else 0
    if scale < 7:
        return text
    digits = F.regexp_replace(F.substring_index(text, "E", 1), "[^0-9]", "")
    padded = F.lpad(digits, scale, "0")
    plain = F.concat(F.when(text.startswith("-"), "-0.").otherwise("0."), padded)
    return F.when(text.contains("E"), plain).otherwise(text)


def bucket_of(plan: FoldPlan) -> Column:
    """The bucket that a key is in."""
    number = F.pmod(F.xxhash64(key_text(plan)), F.lit(plan.layout.buckets).cast("bigint"))
    return number.cast("int")


def era_of(plan: FoldPlan, of: Callable[[str], Column]) -> Column:
    """Which incarnation of the topic a row is of; a later one counts more.

    Args:
        of: Gives a coordinate of it.
    """
    if len(plan.eras) == 1:
        return F.lit(0)
    last: dict[str, int] = {}
    firsts: dict[tuple[int, str], dict[int, int]] = {}  # of each stay, by partition
    for topic_id, partition, generation, n in plan.incarnations.conditions:
        if partition is None:
            last[topic_id] = n
        else:
            firsts.setdefault((n, topic_id), {})[partition] = generation
    found = F.create_map(*(F.lit(part) for pair in last.items() for part in pair))[of("topic_id")]
    for (n, topic_id), here in sorted(firsts.items()):
        first = _looked_up([here.get(p, -1) for p in range(max(here) + 1)], of)
        is_its = (of("topic_id") == topic_id) & (first >= 0) & (of("generation") >= first)
        found = F.when(is_its, n).otherwise(found)
    return found


def order_of(plan: FoldPlan, of: Mapping[str, Column] | None = None) -> Column:
    """A row's place in the one total order of the table.

    Args:
        of: The coordinates of a row; those of the row itself if not given.
    """
    at = of or {name: F.col(name) for name in placing(plan)}
    era = era_of(plan, at.__getitem__)
    named = {n: era if n == ERA else _timed(n, at[n]) for n in order_names(plan)}
    return F.struct(*(column.alias(n) for n, column in named.items()))


def _timed(name: str, column: Column) -> Column:
    """A column of the order; a record without a time is before all others."""
    return F.coalesce(column, F.lit(_BEGINNING)) if name == "timestamp" else column


def placing(plan: FoldPlan) -> tuple[str, ...]:
    """The columns that say where a row is in the order."""
    return (*COORDINATES, *(c.name for c in plan.sequence))


def is_truncated(plan: FoldPlan, barrier: Barrier | None, at: Column) -> Column:
    """Whether a change came before the last one that said that all rows are gone.

    By offsets that one speaks of its own partition and of older incarnations, as a floor does; by
    Kafka's time of all partitions.

    Args:
        at: The change's place, as of `order_of`.
    """
    if barrier is None:
        return F.lit(False)
    era = plan.incarnations.of(barrier.identity)
    names = order_names(plan)[1:] if plan.order == "time" else ("generation", "offset")
    found = F.lit(False)
    for name in reversed(names):
        limit = F.lit(getattr(barrier, name))
        found = (at[name] < limit) | ((at[name] == limit) & found)
    is_same: Column = at[ERA] == F.lit(era)
    if plan.order != "time":
        is_same &= at["partition"] == barrier.partition
    return (at[ERA] < F.lit(era)) | (is_same & found)


def outlives(plan: FoldPlan, barrier: Barrier | None, gone: Column, at: Column) -> Column:
    """Whether a change's values still stand when the last change of its key comes.

    A key's life ends with a delete, and with a record that says that all rows are gone.

    Args:
        gone: The place of the last delete among the changes that are folded; null for none.
        at: The change's place.
    """
    return (gone.isNull() | (at > gone)) & ~is_truncated(plan, barrier, at)


def fillable(plan: FoldPlan) -> list[str]:
    """Columns that a change may lack, if it may lack any."""
    if not plan.has_unavailable:
        return []
    rows = (c for c in plan.columns if c.name not in plan.layout.key)
    return [c.name for c in rows if placeholders(UNAVAILABLE, c.type)]  # any text: by types only


def newest(plan: FoldPlan) -> Transform:
    """One row a key: its last change, and what is to be known of the others.

    `NEW` begins the names of the change's columns, `OLDEST` is the place of the first one, `FIRST`
    and `LAST` the smallest and the largest partition among those of the newest topic id. Of each
    column that a change may lack there is the newest value that came, with its place; `GONE` is
    the place of the last change that said that the row is gone.
    """
    others = [n for n in row_columns(plan) if n not in plan.layout.key]
    order = F.col(ORDER)
    era = era_of(plan, F.col)
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
        left, right = (
            era_of(plan, of) if name == ERA else _timed(name, of(name)) for of in (one, other)
        )
        found = (left > right) | ((left == right) & found)
    return found


def lacks(unavailable: Column, name: str) -> Column:
    """Whether a change did not bring a column's value."""
    return F.coalesce(F.array_contains(unavailable, name), F.lit(False))
