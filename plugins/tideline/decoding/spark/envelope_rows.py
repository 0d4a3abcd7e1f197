"""Change events become rows of the changed table, and what they say of themselves its columns.

Of a delete, the row is what `before` tells of it, and what the key tells. Where `before` tells
nothing but the key, the other columns are null, whatever Debezium has filled in (`spark.unset`). A
value that an update did not bring is null, and the row names its column: a fold keeps the value
from before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import and_, getitem, or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from tideline.decoding.schemas.envelope import BEFORE, CHANGES, MESSAGE, POSITION, ROW
from tideline.decoding.schemas.merging import wrapped_column, writers_without, written_defaults
from tideline.decoding.spark.fields import (
    ERROR,
    ERROR_CLASS,
    INVALID_PLACES,
    SCHEMA_ID,
    at_millis,
    fields_of,
    lenient_places,
    spark_type,
    value_of,
)
from tideline.model.decoding import (
    INVALID,
    NO_CHANGE,
    OF_ENVELOPE,
    UNAVAILABLE,
    ColumnSource,
    DecodePlan,
    PartPlan,
    TypedColumn,
)
from tideline.model.placeholders import placeholders
from tideline.spark.coordinates import Transform
from tideline.spark.unset import is_unset

DELETED_FIELD = "__deleted"
IS_BARE = "is_bare"
"""Of a change event: it is an update, and brings no row of before."""
IS_TOLD = "is_told"
"""Whether a row is no deleted one, or says more than its key.

All columns of a row are asked, and all columns of the row ask. As a column of its own it stands in
Spark's plan once, and not in each.
"""


def open_envelopes(plan: DecodePlan) -> Transform:
    """Put the changed row in place of its event, and add the table's own columns about it.

    A good event that changes no row becomes bad. Without an envelope, only values that a change did
    not bring are seen to.

    Args:
        plan: Its parts are decoded and judged already.
    """
    part = next((p for p in plan.parts if p.part == "value"), None)
    key = next((p for p in plan.parts if p.part == "key"), None)

    def transform(rows: DataFrame) -> DataFrame:
        if part is None:
            return rows
        if part.envelope is not None:
            rows = _with_row(rows, part, key)
        elif key is not None:
            rows = rows.transform(_without_unset(part, key))
        if part.lenient:
            rows = rows.withColumn(INVALID, _names_of_invalid(part))
        return rows if part.unavailable is None else _without_placeholders(rows, part)

    return transform


def _names_of_invalid(part: PartPlan) -> Column:
    """The columns that cannot hold what the record has there; null for none."""
    places = [*lenient_places(part)]
    is_delete = F.coalesce(F.col("op") == "d", F.lit(False)) if part.envelope else F.lit(False)
    named = []
    for column in part.reader.in_table:
        if (column.name, False) in places:
            is_invalid = is_at(part, places.index((column.name, False))) & ~is_delete
            if (column.name, True) in places:
                was = is_at(part, places.index((column.name, True)))
                is_invalid |= was & is_delete & value_of(part.part, column).isNull()
            named.append(F.when(is_invalid, F.lit(column.name)))
    names = F.array_compact(F.array(*named)) if named else F.lit(None).cast("array<string>")
    return F.when(F.size(names) > 0, names)


def is_at(part: PartPlan, *numbers: int) -> Column:
    """Whether one of some lenient places holds nothing for what the record has there."""
    invalid = F.col(f"{part.part}_{INVALID_PLACES}")
    return reduce(
        or_, (F.coalesce(F.array_contains(invalid, n), F.lit(False)) for n in numbers), F.lit(False)
    )


def _with_row(rows: DataFrame, part: PartPlan, key: PartPlan | None) -> DataFrame:
    event = _Event(part)
    op = event.at("op")
    is_delete = F.coalesce(op == "d", F.lit(False))
    rows = rows.withColumn(IS_TOLD, ~is_delete | event.is_told(key))
    made = {
        "op": op,
        "source_timestamp": at_millis(event.at("source", "ts_ms")),
        "snapshot": event.at("source", "snapshot").cast("string"),
        "transaction_id": event.at("transaction", "id").cast("string"),
        "source_position": _position(event),
    }
    schema_id = F.col(f"{part.part}_{SCHEMA_ID}")
    has_no_op = schema_id.isin(*writers_without(part, "op"))  # as a heartbeat's has none
    has_row = op.isin("d", "t") | event.at(ROW).isNotNull()
    name = (
        F.when(F.col(ERROR_CLASS).isNotNull() | F.col("is_tombstone"), F.col(ERROR_CLASS))
        .when(has_no_op | (op == MESSAGE), F.lit(NO_CHANGE))
        .when(op.isNull() | ~op.isin(*CHANGES) | ~has_row, F.lit("type_mismatch"))
    )
    what = F.concat(F.lit("op is "), F.coalesce(F.substring(op, 1, 20), F.lit("null")))
    why = F.when(name == NO_CHANGE, ": the event changes no row").when(
        op.isin(*CHANGES), f", and {ROW} is null"
    )
    text = F.concat(what, F.coalesce(why, F.lit(": no operation of Debezium's")))
    is_new = F.col(ERROR_CLASS).isNull() & name.isNotNull()
    judged = {
        ERROR_CLASS: name,
        ERROR: F.when(is_new, text).otherwise(F.col(ERROR)),
        "part": F.when(is_new, part.part).otherwise(F.col("part")),
    }
    judged[IS_BARE] = F.coalesce((op == "u") & event.at(BEFORE).isNull(), F.lit(False))
    row = event.row(is_delete, key)
    # in this order: the event's own columns and the judgement are made of what is replaced
    assert [*made] == [*OF_ENVELOPE]
    return rows.withColumns(made | judged | ({} if row is None else {fields_of(part.part): row}))


class _Event:
    """The decoded event: its fields by their names in the records."""

    def __init__(self, part: PartPlan) -> None:
        self.part = part
        self.columns = {column.field: column for column in part.reader.columns}
        self.fields = F.col(fields_of(part.part))

    def at(self, field: str, *inside: str) -> Column:
        """A field; null where no schema has it."""
        column = self.columns.get(field)
        if column is None or (inside and inside[0] not in _types_in(column.type)):
            return F.lit(None).cast("bigint" if inside == ("ts_ms",) else "string")
        return reduce(getitem, inside, self.fields[column.name])

    def is_told(self, key: PartPlan | None) -> Column:
        """Whether the row of before says more than its key."""
        keys = _fields_of_keys(key)
        if not keys or ROW not in self.columns:
            return F.lit(True)
        there = self._there()
        others = {n: kind for n, kind in self._in(ROW).items() if n in there and n not in keys}
        was_invalid = [n for n, (_, was) in enumerate(lenient_places(self.part)) if was]
        return _is_told(self.part, there, others, BEFORE) | is_at(self.part, *was_invalid)

    def row(self, is_delete: Column, key: PartPlan | None) -> Column | None:
        """The changed row, in place of `after`; None where no schema has one."""
        after = self.columns.get(ROW)
        if after is None:
            return None
        keys, there = _fields_of_keys(key), self._there()
        made = []
        for name, kind in self._in(ROW).items():
            old = []
            if name in there:
                old = [there[name] if name in keys else F.when(F.col(IS_TOLD), there[name])]
            if key is not None and name in keys and keys[name].type == kind:
                old.append(F.col(fields_of(key.part))[keys[name].name])
            gone = F.coalesce(*old) if old else F.lit(None)
            made.append(F.when(is_delete, gone).otherwise(self.at(ROW, name)).alias(name))
        return F.struct(F.struct(*made).alias(after.name))

    def _there(self) -> dict[str, Column]:
        """The row's columns as `before` has them, of the same types."""
        was = self._in(BEFORE)
        return {n: self.at(BEFORE, n) for n, kind in self._in(ROW).items() if was.get(n) == kind}

    def _in(self, field: str) -> dict[str, Any]:
        column = self.columns.get(field)
        return {} if column is None else _types_in(column.type)


def _fields_of_keys(key: PartPlan | None) -> dict[str, ColumnSource]:
    """The fields of a decoded key, which are the row's; a single value is no field of it."""
    if key is None or wrapped_column(key.reader) is not None:
        return {}
    return {column.field: column for column in key.reader.columns}


def _is_told(
    part: PartPlan, row: Mapping[str, Column], types: Mapping[str, object], *inside: str
) -> Column:
    """Whether a deleted row says more than its key: a value that nobody fills in.

    Args:
        row: The row's columns by name.
        types: Of those that are not the key's.
        inside: The fields of the record that the row is in, outermost first.
    """
    defaults = written_defaults(part, inside)
    unset = [is_unset(row[name], kind, defaults.get(name, ())) for name, kind in types.items()]
    return ~reduce(and_, unset, F.lit(True))


def says_deleted(part: PartPlan) -> Column | None:
    """Whether a flattened row says that it is deleted; None where no schema has such a field.

    Debezium's `ExtractNewRecordState` writes a text, with some converters a boolean.
    """
    for column in part.reader.in_table if part.envelope is None else ():
        if column.field == DELETED_FIELD:
            text = value_of(part.part, column).cast("string")
            return F.coalesce(text == "true", F.lit(False))
    return None


def _without_unset(part: PartPlan, key: PartPlan) -> Transform:
    """Of a flattened row that is deleted, and told by its key alone, no other value.

    Fields that begin with two underscores are the transform's own.
    """
    is_deleted, fields = says_deleted(part), F.col(fields_of(part.part))
    keys = _fields_of_keys(key)
    others = {
        c.name: c
        for c in part.reader.columns
        if c.field not in keys and not c.field.startswith("__")
    }
    if is_deleted is None or not others or not keys:
        return lambda rows: rows
    row = {name: fields[name] for name in others}
    types = {name: column.type for name, column in others.items()}
    is_kept = ~is_deleted | _is_told(part, row, types)
    is_kept |= is_at(part, *range(len(lenient_places(part))))
    is_told = F.col(IS_TOLD)
    made = [
        (F.when(is_told, fields[c.name]) if c.name in others else fields[c.name]).alias(c.name)
        for c in part.reader.columns
    ]
    whole = F.when(fields.isNotNull(), F.struct(*made))
    return lambda rows: rows.withColumn(IS_TOLD, is_kept).withColumn(fields_of(part.part), whole)


def _types_in(kind: object) -> dict[str, Any]:
    """The types of a struct's fields, as Delta writes them in JSON; none of another type's."""
    fields = kind.get("fields", ()) if isinstance(kind, Mapping) else ()
    return {field["name"]: field["type"] for field in fields}


def _position(event: _Event) -> Column:
    source = event.columns.get("source")
    names = [name for name in POSITION if source is not None and name in _types_in(source.type)]
    if not names:
        return F.lit(None).cast("string")
    return F.to_json(F.struct(*(event.at("source", name).alias(name) for name in names)))


def _without_placeholders(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Name the columns whose value did not come; `typed_value` gives null for these."""
    depth = 2 if part.envelope is not None else 1
    named = []
    for column in part.reader.in_table:
        stands = _placeholders(part, column)
        if len(column.steps) == depth and stands:
            value, kind = value_of(part.part, column), spark_type(column.type)
            is_away = reduce(or_, (_equals(value, stand, kind) for stand in stands))
            named.append(F.when(F.coalesce(is_away, F.lit(False)), F.lit(column.name)))
    names = F.array_compact(F.array(*named)) if named else F.lit(None).cast("array<string>")
    return rows.withColumn(UNAVAILABLE, F.when(F.size(names) > 0, names))


def typed_value(part: PartPlan, column: TypedColumn) -> Column:
    """The value of a typed column; null also where the change did not bring it."""
    found = value_of(part.part, column)
    if not _placeholders(part, column):
        return found
    away = F.array_contains(F.coalesce(F.col(UNAVAILABLE), F.array()), column.name)
    return F.when(~away, found)


def _placeholders(part: PartPlan, column: TypedColumn) -> tuple[object, ...]:
    return () if part.unavailable is None else placeholders(part.unavailable, column.type)


def _equals(value: Column, stand: object, kind: DataType) -> Column:
    """Whether a value is a placeholder; Spark compares no maps, but what is in them."""
    if isinstance(stand, dict):
        ((key, held),) = stand.items()
        pair = F.struct(F.lit(key).alias("key"), F.lit(held).alias("value"))
        return F.map_entries(value) == F.array(pair)
    if isinstance(stand, list):
        return value == F.array(*map(F.lit, stand)).cast(kind)
    return value == F.lit(stand)
