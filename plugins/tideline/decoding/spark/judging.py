"""Decode the parts of the raw rows, and judge each row: good, or bad and why.

A row may be bad for its bytes, or for its `event_date`: the day of a field, or of Kafka's time,
inside a window of days.
"""

from __future__ import annotations

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DateType, LongType, StringType

from tideline.decoding.schemas.merging import nullable_writers, wrapped_column
from tideline.decoding.spark.envelope_rows import open_envelopes, says_deleted
from tideline.decoding.spark.expectations import add_expectation_columns
from tideline.decoding.spark.fields import (
    ERROR,
    ERROR_CLASS,
    FIELDS,
    INVALID_PLACES,
    PAYLOAD,
    SCHEMA_ID,
    at_millis,
    fields_of,
    spark_type,
    value_of,
)
from tideline.decoding.spark.framing import IS_NEW, unframe, value_bytes
from tideline.decoding.spark.row_columns import typed_fields
from tideline.model.decoding import NO_CHANGE, PLAIN_ID, SINGLE_VALUES, DecodePlan, PartPlan
from tideline.spark.coordinates import Transform

EVENT_DATE = "event_date"
IS_TOMBSTONE, IS_DROPPED, PART = "is_tombstone", "is_dropped", "part"
_TOLD = (ERROR_CLASS, ERROR)


def judge(plan: DecodePlan, *, tells_why: bool = True) -> Transform:
    """Decode, and judge.

    Args:
        plan: How.
        tells_why: Whether bad rows are wanted, with their `error`; without it, not all of them
            have one.

    Added beside the raw columns are `is_tombstone`, `is_dropped` (a tombstone that is not kept),
    `value_fields` and `key_fields`, `schema_id`, `is_new_id`, `event_date` if the plan has one, and
    of a bad record `part`, `error_class` and `error`.

    - A value that is null by its schema is a tombstone, whatever its bytes are; under a schema that
      does not say so it is bad, and so is such a key. Where tombstones are dropped, a record with
      bytes goes into quarantine: the audit tells dropped records by their missing values.
    - Where value and key are both bad, the value's error is told.
    - Where both are good, the event's time may still be bad, or the row may fail what is expected
      of it; that counts as the value's.
    - Of a tombstone that is dropped nothing is decoded.
    - `schema_id` is the value's where values are decoded, else the key's; of a bad record it is
      that of the bad part. It is null without framing.
    """

    def transform(rows: DataFrame) -> DataFrame:
        value = next((value_bytes(p) for p in plan.parts if p.part == "value"), F.col("value"))
        is_dropped = F.col("value").isNull() if plan.tombstones == "drop" else F.lit(False)
        rows = rows.withColumns({IS_TOMBSTONE: value.isNull(), IS_DROPPED: is_dropped})
        for part in sorted(plan.parts, key=lambda part: part.part != "value"):
            rows = _with_part(rows, part, tells_why=tells_why)
            rows = rows.transform(_judge_null(part, plan.tombstones))
        rows = _joined(rows, plan).transform(open_envelopes(plan))
        if plan.event_date is not None:
            rows = rows.transform(judge_event_date(plan))
        if not plan.expect:
            return rows
        return rows.transform(add_expectation_columns(plan, typed_fields(plan), _is_gone(plan)))

    return transform


def _is_gone(plan: DecodePlan) -> Column:
    """Whether a record says that its row is gone: it may not tell the row's fields."""
    is_gone = F.col(IS_TOMBSTONE)
    if any(p.envelope for p in plan.parts):
        is_gone |= F.coalesce(F.col("op").isin("d", "t"), F.lit(False))
    value = next((p for p in plan.parts if p.part == "value"), None)
    if value is not None and (is_deleted := says_deleted(value)) is not None:
        is_gone |= is_deleted
    return is_gone


def _with_part(rows: DataFrame, part: PartPlan, *, tells_why: bool) -> DataFrame:
    """Decode one part; what is said of it gets its name.

    In few steps: Spark analyses the plan anew after each.
    """
    is_kept = ~F.col(IS_DROPPED)
    framed = {f"framing_{n}": F.when(is_kept, F.col(n)) for n in _TOLD}
    framed |= {PAYLOAD: F.when(is_kept, F.col(PAYLOAD)), IS_NEW: F.col(IS_NEW) & is_kept}
    decoded = decode(unframe(rows, part, tells_why=tells_why).withColumns(framed), part)
    names = (FIELDS, SCHEMA_ID, IS_NEW, *((INVALID_PLACES,) if part.lenient else ()))
    named = {n: F.col(n) for n in names}
    named |= {n: F.coalesce(F.col(f"framing_{n}"), F.col(n)) for n in _TOLD}
    prefixed = decoded.withColumns({f"{part.part}_{n}": column for n, column in named.items()})
    return prefixed.drop(PAYLOAD, *named, *(f"framing_{n}" for n in _TOLD))


def _judge_null(part: PartPlan, tombstones: str) -> Transform:
    """Judge values and keys that are null though they have bytes."""
    fields, schema_id = F.col(fields_of(part.part)), F.col(f"{part.part}_{SCHEMA_ID}")
    whole = fields
    if (root := wrapped_column(part.reader)) is not None:
        whole = fields[root]
    has_bytes = value_bytes(part).isNotNull() & ~F.col(IS_DROPPED)
    is_good = F.col(f"{part.part}_{ERROR_CLASS}").isNull() & ~F.col(f"{part.part}_{IS_NEW}")
    is_null = has_bytes & is_good & whole.isNull()
    if part.lenient:  # a whole value that its column cannot hold is none that says it is null
        is_null &= F.col(f"{part.part}_{INVALID_PLACES}").isNull()
    is_told = schema_id.isin(*nullable_writers(part))
    name = F.when(is_null & ~is_told, "type_mismatch")
    text = F.lit(f"the {part.part} is null, and its schema does not say that it may be")
    made = {}
    if part.part == "value":
        made[IS_TOMBSTONE] = F.col(IS_TOMBSTONE) | (is_null & is_told)
        if tombstones == "drop":
            name = F.when(is_null & is_told, NO_CHANGE).otherwise(name)
            dropped = "the value is null, which says that a row is gone: such records are dropped"
            text = F.when(is_told, dropped).otherwise(text)
    columns = {ERROR_CLASS: name, ERROR: F.when(name.isNotNull(), text)}
    made |= {
        f"{part.part}_{n}": F.coalesce(F.col(f"{part.part}_{n}"), c) for n, c in columns.items()
    }
    return lambda rows: rows.withColumns(made)


def _joined(rows: DataFrame, plan: DecodePlan) -> DataFrame:
    """One schema id, class and text of each row."""
    parts = sorted((part.part for part in plan.parts), key=lambda name: name != "value")
    bad = [F.col(f"{name}_{ERROR_CLASS}").isNotNull() for name in parts]
    first = F.col(f"{parts[0]}_{SCHEMA_ID}")
    made = {PART: F.lit(None).cast("string"), SCHEMA_ID: first}
    made |= {n: F.lit(None).cast("string") for n in _TOLD}
    for name, is_bad in reversed(list(zip(parts, bad, strict=True))):
        made[PART] = F.when(is_bad, name).otherwise(made[PART])
        for n in (SCHEMA_ID, *_TOLD):
            made[n] = F.when(is_bad, F.col(f"{name}_{n}")).otherwise(made[n])
    made[SCHEMA_ID] = F.nullif(made[SCHEMA_ID], F.lit(PLAIN_ID))
    made[IS_NEW] = reduce(or_, (F.col(f"{name}_{IS_NEW}") for name in parts))
    return rows.withColumns(made)


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode one part of the records; `fields` says which columns come and go.

    Args:
        rows: With `payload` and `schema_id`.
        part: How; its format chooses the file.
    """
    # Imported when needed: not every format's libraries are everywhere.
    if part.format in SINGLE_VALUES:
        from tideline.decoding.spark.single import decode as decode_format
    elif part.format == "avro":
        from tideline.decoding.spark.avro_decoder import decode as decode_format
    elif part.format == "json":
        from tideline.decoding.spark.json_decoder import decode as decode_format
    else:
        from tideline.decoding.spark.protobuf_decoder import decode as decode_format
    return decode_format(rows, part)


def judge_event_date(plan: DecodePlan) -> Transform:
    """Add `event_date`; a good row outside of the window becomes bad, or gets none.

    A tombstone has no fields: it has the day of Kafka's time, or none, and is never bad for it. Nor
    is a change event's delete, which may not tell that field.
    A field that is null, or no time, is outside of the window. A record without Kafka's time has no
    day where that is asked for, and is not bad for it.
    """
    wanted = plan.event_date
    assert wanted is not None
    kafka_day = F.to_date(F.col("timestamp"))
    is_gone = _is_gone(plan)
    day = kafka_day
    if wanted.field is not None:
        found = _day_of(plan, wanted.field)
        is_near = found.between(wanted.first, wanted.last)
        day = F.when(is_gone, F.coalesce(F.when(is_near, found), kafka_day)).otherwise(found)
    inside = F.coalesce(F.col(EVENT_DATE).between(wanted.first, wanted.last), F.lit(False))
    has_time = F.lit(True) if wanted.field is not None else F.col("timestamp").isNotNull()
    is_late = F.col(ERROR_CLASS).isNull() & ~inside & ~is_gone & has_time
    if wanted.outside != "quarantine":
        is_late = F.lit(False)
    what = F.concat_ws(" ", F.lit("the event's day"), F.col(EVENT_DATE).cast("string"))
    text = F.concat(what, F.lit(f" is not within {wanted.first} to {wanted.last}"))
    part = "key" if [p.part for p in plan.parts] == ["key"] else "value"
    made = {
        EVENT_DATE: F.when(inside, F.col(EVENT_DATE)),
        "part": F.when(is_late, part).otherwise(F.col("part")),
        ERROR_CLASS: F.when(is_late, "event_time").otherwise(F.col(ERROR_CLASS)),
        ERROR: F.when(is_late, text).otherwise(F.col(ERROR)),
    }
    return lambda rows: rows.withColumn(EVENT_DATE, day).withColumns(made)


def _day_of(plan: DecodePlan, name: str) -> Column:
    """The day that a field of the typed table names; whole numbers are milliseconds since 1970."""
    places = ((p, c) for p in plan.parts for c in p.reader.in_table if c.name == name)
    part, source = next(places, (None, None))
    if part is None or source is None:  # no schema has it so far; who gave the plan asks again
        return F.lit(None).cast("date")
    column = value_of(part.part, source)
    kind = spark_type(source.type)
    if isinstance(kind, DateType):
        return column
    if isinstance(kind, LongType):
        return F.to_date(at_millis(column))
    if isinstance(kind, StringType):
        return F.to_date(F.try_to_timestamp(column))
    return F.to_date(column)
