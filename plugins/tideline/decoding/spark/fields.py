"""What a format is given and gives back, and where a typed column's value is in it.

A format is a file with one function, `decode(rows: DataFrame, part: PartPlan) -> DataFrame`. What
it gets, beside all other columns, which it hands on as they are:

| column | |
|---|---|
| `payload BINARY` | the bytes behind the framing; null where there is nothing to decode |
| `schema_id INT` | which of `part.writers` wrote it; `PLAIN_ID` without framing |

A record with another id has a null payload. Protobuf's message indexes belong to the payload:
its file reads them where `part.framing` is `confluent`.

What a format adds; all three are null where the payload is:

| column | good | bad |
|---|---|---|
| `fields STRUCT` | `part.reader.columns` by `name`, in order, each of its `type` | null |
| `error_class STRING` | null | one of `model.decoding.ErrorClass` |
| `error STRING` | null | one short sentence, without the record's content |

Where the part has lenient columns, a good record has `invalid ARRAY<INT>` as well: the numbers of
the places, in the order of `lenient_places`, whose value is null since its column cannot hold it;
null without one.

A bad record breaks only itself, whatever its bytes are. A format reads each payload once; it
neither filters nor adds rows, nor does it count them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructField, StructType

from tideline.decoding.schemas.envelope import BEFORE
from tideline.decoding.schemas.shapes import struct_type
from tideline.model.decoding import SINGLE_VALUES, PartPlan, TypedColumn
from tideline.spark.session import DECODERS

PAYLOAD, SCHEMA_ID = "payload", "schema_id"
FIELDS, ERROR_CLASS, ERROR = "fields", "error_class", "error"
INVALID_PLACES = "invalid"
_FAR_MS = 9_000_000_000_000_000
"""Milliseconds that still fit when they are counted in microseconds."""
_DECODED = "_decoded"


def by_decoder(
    rows: DataFrame, part: PartPlan, specification: Mapping[str, Any], *others: str
) -> DataFrame:
    """Decode by a function of ours in Spark's JVM (ADR 48): its name is its specification.

    Args:
        rows: With `payload`.
        part: Whose columns they become.
        specification: What the format's decoder needs to know besides them.
        others: Columns that it is given beside the payload.
    """
    columns = struct_type((c.name, c.type) for c in part.reader.columns)
    given = [F.col(name) for name in (PAYLOAD, *others)]
    format = "avro" if part.format in SINGLE_VALUES else part.format
    places = {"lenient": [*lenient_places(part).values()]} if part.lenient else {}
    complete = {**specification, **places}
    made = rows.withColumn(_DECODED, decoder(format, columns, complete, *given))
    names = (FIELDS, ERROR_CLASS, ERROR, *((INVALID_PLACES,) if part.lenient else ()))
    found = {name: F.col(_DECODED)[name] for name in names}
    return made.withColumns(found).drop(_DECODED)


def lenient_places(part: PartPlan) -> dict[tuple[str, bool], tuple[int, ...]]:
    """Where a value may be null that its column cannot hold: places of columns, outermost first.

    Returns:
        By the typed table's column, and whether it is the one of the row before a change.
    """
    names = {c.name: n for n, c in enumerate(part.reader.columns)}
    types = [column.type for column in part.reader.columns]
    before = next((c.name for c in part.reader.columns if c.field == BEFORE), "")
    found: dict[tuple[str, bool], tuple[int, ...]] = {}
    for column in part.reader.in_table if part.lenient else ():
        if column.name not in part.lenient:
            continue
        first, *inside = column.steps
        there = _places_in(types[names[first]], inside)
        assert there is not None  # it is the column's own way
        found[column.name, False] = (names[first], *there)
        was = _places_in(types[names[before]], inside) if before in names else None
        if part.envelope is not None and was is not None:
            found[column.name, True] = (names[before], *was)
    return found


def _places_in(kind: Any, steps: Sequence[str]) -> tuple[int, ...] | None:
    """The places of nested fields in a struct; None where one is not there."""
    found = list[int]()
    for step in steps:
        fields = kind.get("fields", ()) if isinstance(kind, Mapping) else ()
        names = [field["name"] for field in fields]
        if step not in names:
            return None
        found.append(names.index(step))
        kind = fields[found[-1]]["type"]
    return tuple(found)


def decoder(
    format: str, fields: object, specification: Mapping[str, Any], *given: Column
) -> Column:
    """What a function of ours in Spark's JVM gives: `fields`, `error_class` and `error`.

    Args:
        format: Which one (`spark/java/Decoders.java`).
        fields: Their type as Delta and Spark write it in JSON.
        specification: What it needs to know besides them.
        given: What it is called with.
    """
    text = json.dumps({"format": format, "type": fields, **specification})
    name = text.replace("`", "``")
    return F.call_function(f"{DECODERS}.`{name}`", *given)


def fields_of(part: str) -> str:
    """Name of the column with a part's fields."""
    return f"{part}_{FIELDS}"


def value_of(part: str, column: TypedColumn) -> Column:
    """The value of a typed column; null where a record on its way is null.

    Args:
        part: Key or value.
        column: One of the part's.
    """
    return reduce(lambda found, step: found.getField(step), column.steps, F.col(fields_of(part)))


def at_millis(column: Column) -> Column:
    """The time of milliseconds since 1970; null where it is too far away to be told."""
    return F.timestamp_millis(F.when(column.between(-_FAR_MS, _FAR_MS), column))


def spark_type(kind: object) -> DataType:
    """The type that a column's JSON names.

    Args:
        kind: `"long"`, or `{"type": "struct", "fields": [...]}`.
    """
    field = {"name": "c", "type": kind, "nullable": True, "metadata": {}}
    found: StructField = StructType.fromJson({"type": "struct", "fields": [field]}).fields[0]
    return found.dataType
