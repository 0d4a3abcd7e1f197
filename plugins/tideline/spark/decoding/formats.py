"""The formats that records are written in: one file per format, behind one call.

    decode(rows: DataFrame, part: PartPlan) -> DataFrame

What a format gets, beside all other columns, which it hands on as they are:

| column | |
|---|---|
| `payload BINARY` | the bytes behind the framing; null where there is nothing to decode |
| `schema_id INT` | which of `part.writers` wrote it, `PLAIN_ID` without framing; other ids come \
with a null payload |

Protobuf's message indexes belong to the payload: its file reads them where `part.framing` is
`confluent`.

What a format adds; the names are `FIELDS`, `ERROR_CLASS` and `ERROR` here:

| column | good | bad | null payload |
|---|---|---|---|
| `fields STRUCT` | the columns of `part.reader.columns`, by `name`, in order, of their `type` \
| null | null |
| `error_class STRING` | null | one of `model.decoding.ErrorClass` | null |
| `error STRING` | null | one short sentence, without the record's content | null |

A bad record breaks only itself, whatever its bytes are. A format reads each payload once, in
native functions or in `mapInArrow`; it neither filters nor adds rows, nor does it count them.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from tideline.model.decoding import PartPlan

PAYLOAD, SCHEMA_ID = "payload", "schema_id"
FIELDS, ERROR_CLASS, ERROR = "fields", "error_class", "error"

Decode = Callable[[DataFrame, PartPlan], DataFrame]


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode one part of the records; which columns come and go is said above.

    Args:
        rows: With `payload` and `schema_id`.
        part: How; its format chooses the file.
    """
    return _find(part.format)(rows, part)


def _find(name: str) -> Decode:
    """The format's own `decode`; imported when needed: not every format's parts are everywhere."""
    if name == "avro":
        from tideline.spark.decoding import avro

        return avro.decode
    if name == "json":
        from tideline.spark.decoding import json

        return json.decode
    if name == "protobuf":
        from tideline.spark.decoding import protobuf

        return protobuf.decode
    raise ValueError(f"no such format: {name}")
