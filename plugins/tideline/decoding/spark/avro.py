"""Avro, by Spark's own `from_avro`.

`from_avro` alone says neither why a record is bad nor whether all of its bytes were read. So bytes
that nobody can foresee are put behind each payload, and the schemas say that they follow the
record: bytes that are read in their place are too many, and where they are missing, too few.

Strings and bytes that claim to be longer than `AVRO_LIMITS` are refused before memory is taken for
them (`launch.programs`).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable
from functools import reduce
from operator import and_
from typing import Any, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from tideline.decoding.spark.fields import (
    ERROR,
    ERROR_CLASS,
    FIELDS,
    PAYLOAD,
    SCHEMA_ID,
    spark_type,
)
from tideline.launch.programs import LONGEST_AVRO_BYTES
from tideline.model.decoding import PartPlan

_READ = "_read"
_END_BYTES = 8


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode Avro; what comes and goes is said in `formats`.

    A record that was refused and is longer than the limit of its strings is `too_large`: which of
    both it was, Avro does not say.
    """
    end = F.lit(secrets.token_bytes(_END_BYTES))
    read = rows.withColumn(_READ, _from_avro(part, F.concat(F.col(PAYLOAD), end)))
    body, found = F.col(f"{_READ}.body"), F.col(f"{_READ}.end")
    types = cast(Any, read.schema[_READ].dataType)["body"].dataType
    fields = [c.field for c in part.reader.columns]
    is_text = _or_null(_all(_is_text(body[name], types[name].dataType) for name in fields))
    is_large = F.length(PAYLOAD) > LONGEST_AVRO_BYTES
    name = (
        F.when(F.col(PAYLOAD).isNull(), F.lit(None))
        .when(found.isNull() & is_large, "too_large")
        .when(found.isNull(), "malformed")
        .when(found != end, "trailing_bytes")
        .when(~is_text, "invalid_utf8")
    )
    classified = read.withColumn(ERROR_CLASS, name)
    is_good = F.col(PAYLOAD).isNotNull() & F.col(ERROR_CLASS).isNull()
    columns = (body[c.field].cast(spark_type(c.type)).alias(c.name) for c in part.reader.columns)
    said = {FIELDS: F.when(is_good, F.struct(*columns)), ERROR: _said(part)}
    return classified.withColumns(said).drop(_READ)


def _from_avro(part: PartPlan, payload: Column) -> Column:
    options = {"avroSchema": _followed_by_end(part.reader.text), "mode": "PERMISSIVE"}
    read = [
        (w.schema_id, from_avro(payload, _followed_by_end(w.text), options)) for w in part.writers
    ]
    nothing = F.lit(None).cast("binary")
    chosen = from_avro(nothing, options["avroSchema"], {"mode": "PERMISSIVE"})  # its type
    for schema_id, column in reversed(read):
        chosen = F.when(F.col(SCHEMA_ID) == schema_id, column).otherwise(chosen)
    return chosen


def _followed_by_end(schema: str) -> str:
    """A record of a schema's record and the bytes behind it.

    It has no namespace: the records inside would inherit it.
    """
    end = {"type": "fixed", "name": "TidelineEnd", "size": _END_BYTES}
    parts = [{"name": "body", "type": json.loads(schema)}, {"name": "end", "type": end}]
    return json.dumps({"type": "record", "name": "TidelineFollowed", "fields": parts})


def _said(part: PartPlan) -> Column:
    name = F.col(ERROR_CLASS)
    by = F.concat(F.lit("schema "), F.col(SCHEMA_ID).cast("string"))
    by = F.when(F.col(SCHEMA_ID) >= 0, by).otherwise("the schema")
    return (
        F.when(name == "malformed", F.concat(F.lit("not a record of "), by))
        .when(name == "trailing_bytes", F.concat(F.lit("bytes follow the record of "), by))
        .when(name == "invalid_utf8", F.concat(F.lit("invalid UTF-8 in a string of "), by))
        .when(
            name == "too_large",
            F.concat(
                F.lit(f"not a record of strings up to {LONGEST_AVRO_BYTES} bytes of "),
                by,
            ),
        )
    )


def _is_text(column: Column, kind: DataType) -> Column | None:
    """Whether all strings in a column are valid UTF-8, or null; None where it holds no strings.

    Spark takes their bytes as they are.
    """
    if isinstance(kind, StringType):
        return _or_null(F.is_valid_utf8(column))
    if isinstance(kind, StructType):
        return _all(_is_text(column[f.name], f.dataType) for f in kind.fields)
    if isinstance(kind, ArrayType):
        return _each_is_text(column, kind.elementType)
    if isinstance(kind, MapType):
        keys, values = F.map_keys(column), F.map_values(column)
        return _all((_each_is_text(keys, kind.keyType), _each_is_text(values, kind.valueType)))
    return None


def _each_is_text(column: Column, kind: DataType) -> Column | None:
    if _is_text(F.lit(None), kind) is None:
        return None
    return _or_null(F.forall(column, lambda item: _or_null(_is_text(item, kind))))


def _or_null(is_valid: Column | None) -> Column:
    return F.lit(True) if is_valid is None else F.coalesce(is_valid, F.lit(True))


def _all(conditions: Iterable[Column | None]) -> Column | None:
    found = [condition for condition in conditions if condition is not None]
    return reduce(and_, found) if found else None
