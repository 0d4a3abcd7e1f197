"""What a bucket holds before a fold and after it, and what keeps it from being written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from tideline.folding.spark.changes import FIRST, LAST, current_schema, key_text, row_columns
from tideline.folding.spark.merging import (
    HAS_OLD,
    has_moved,
    is_dropped,
    is_in_doubt,
    merged,
    new,
    old,
)
from tideline.model.current import (
    BUCKET,
    COORDINATES,
    IS_DELETED,
    OLD_SUMS,
    Barrier,
    BucketState,
    FoldPlan,
    checksum_of,
)
from tideline.model.decoding import UNAVAILABLE

_LOW, _BITS = 0xFFFF_FFFF, 60
_NESTED = (ArrayType, MapType, StructType, VariantType)


def looked_at(plan: FoldPlan, pairs: DataFrame, barrier: Barrier | None) -> DataFrame:
    """The table's row of each pair; beside it hashes of before and after, and what is wrong.

    A row that is dropped has no hash of after.

    Args:
        pairs: As `beside` gives them.
        barrier: The last change that said that all rows are gone.
    """
    keys, names = plan.layout.key, row_columns(plan)
    moved = F.lit(False)
    if plan.order == "offset":
        in_batch = new("offset").isNotNull() & (-F.col(FIRST)["place"] != F.col(LAST)["place"])
        moved = has_moved(plan) | F.coalesce(in_batch, F.lit(False))
    before = {n: F.col(n) if n in keys else old(n) for n in names}
    made = pairs.select(
        *merged(plan, barrier),
        BUCKET,
        HAS_OLD,
        F.when(F.col(HAS_OLD), _hash(plan, before)).alias("found_hash"),
        old(IS_DELETED).alias("found_gone"),
        F.when(moved, key_text(plan)).alias("moved"),
        (is_in_doubt(plan, barrier) if plan.has_unavailable else F.lit(False)).alias("doubted"),
    )
    after = {n: F.col(n) for n in names}
    left = F.when(~is_dropped(plan, after), _hash(plan, after))
    return made.withColumns({"left_hash": left, "left_gone": F.col(IS_DELETED)})


def bucket_sums(looked: DataFrame) -> Sequence[Row]:
    """A row a bucket: its sums before and after, a key that has moved, how many rows are in doubt.

    Args:
        looked: As `looked_at` gives it.
    """
    return looked.groupBy(BUCKET).agg(*_looks()).collect()


def standing_sums(plan: FoldPlan, rows: DataFrame) -> Sequence[Row]:
    """A row a bucket: what the table's rows there come to, as `found`."""
    hashed = _hash(plan, {n: F.col(n) for n in row_columns(plan)})
    looked = rows.select(BUCKET, hashed.alias("found_hash"), F.col(IS_DELETED).alias("found_gone"))
    return looked.groupBy(BUCKET).agg(*_sums("found")).collect()


def _looks() -> list[Column]:
    """What is to be known of a bucket: before, after, and what keeps it from being written."""
    return [
        *_sums("found"),
        *_sums("left"),
        F.max("moved").alias("moved"),  # a set would take Spark's slow way through all rows
        F.count_if("doubted").alias("doubted"),
    ]


def _sums(name: str) -> list[Column]:
    """Live rows, deleted ones, and the sum of their hashes in two halves."""
    hashed, gone = F.col(f"{name}_hash"), F.col(f"{name}_gone")
    there = hashed.isNotNull()
    return [
        F.count_if(there & ~gone).alias(f"{name}_live"),
        F.count_if(there & gone).alias(f"{name}_deleted"),
        F.coalesce(F.sum(hashed.bitwiseAND(F.lit(_LOW))), F.lit(0)).alias(f"{name}_low"),
        F.coalesce(F.sum(F.shiftrightunsigned(hashed, 32)), F.lit(0)).alias(f"{name}_high"),
    ]


def _hash(plan: FoldPlan, row: Mapping[str, Column]) -> Column:
    """A hash of all that a row holds. A null adds nothing: a new column changes no row's hash.

    Spark's hash passes over nulls, so numbers say with their bits which columns are there; one
    without a bit is null itself.
    """
    types = {f.name: f.dataType for f in current_schema(plan).fields}
    own = (*COORDINATES, IS_DELETED, UNAVAILABLE, *(c.name for c in plan.sequence))
    names = [*own, *(c.name for c in plan.columns)]
    words, told = [F.lit(0).cast("bigint")] * (len(names) // _BITS + 1), []
    for n, name in enumerate(names):
        if name not in row:  # one that the table may get later
            continue
        value = row[name]
        bit = F.when(value.isNotNull(), F.lit(1 << n % _BITS)).otherwise(F.lit(0))
        words[n // _BITS] = words[n // _BITS].bitwiseOR(bit.cast("bigint"))
        if plan.sums == OLD_SUMS:
            is_text = isinstance(types[name], MapType | VariantType)
            told.append(F.to_json(F.struct(value)) if is_text else value)
        elif isinstance(types[name], _NESTED) and name != UNAVAILABLE:  # a list of names only
            told.append(F.when(value.isNotNull(), _content(value, types[name])))
        else:
            told.append(value)
    return F.xxhash64(*(F.nullif(word, F.lit(0)) for word in words), *told)


def _told(value: Column, kind: DataType) -> Column:
    """What is hashed of an item: also whether it is null."""
    return F.struct(value.isNotNull(), _content(value, kind))


def _content(value: Column, kind: DataType) -> Column:
    """What is hashed of a nested value: also what is null in it, and how long its lists are.

    Spark's hash goes through lists and structs item by item, without their ends, and passes over
    nulls: a field says with its number that it is there, so one that a struct gets later changes no
    hash. Pairs of a map are in the order of their keys. The name of this is `model.current.SUMS`.
    """
    if isinstance(kind, StructType):
        told = []
        for number, inner in enumerate(kind.fields):
            field = value.getField(inner.name)
            said = F.struct(F.lit(number), _content(field, inner.dataType))
            told.append(F.when(field.isNotNull(), said))
        return F.struct(*told)
    if isinstance(kind, MapType):
        pair = StructType().add("key", kind.keyType).add("value", kind.valueType)
        value, kind = F.array_sort(F.map_entries(value), _by_key), ArrayType(pair)
    if isinstance(kind, ArrayType):
        item = kind.elementType
        return F.struct(F.size(value), F.transform(value, lambda one: _told(one, item)))
    # The column's name is part of a struct's JSON, and it is another one before the fold.
    return F.to_json(F.struct(value.alias("v"))) if isinstance(kind, VariantType) else value


def _by_key(one: Column, other: Column) -> Column:
    left, right = one.getField("key"), other.getField("key")
    return F.when(left < right, -1).when(left > right, 1).otherwise(0)


def bucket_states(rows: Sequence[Row], name: str) -> tuple[BucketState, ...]:
    """The buckets that hold rows, `found` there or `left` there."""
    states = [
        BucketState(
            row[BUCKET],
            row[f"{name}_live"],
            row[f"{name}_deleted"],
            checksum_of(row[f"{name}_low"], row[f"{name}_high"]),
        )
        for row in rows
    ]
    return tuple(sorted(state for state in states if state.rows))
