"""JSON, by our own decoder in Spark's JVM (`spark/java/JsonDecoder.java`, ADR 48).

The decoder is a function whose name is its specification: the document's shape, and the type of
what it makes of it. It gives the fields, or the class and the text of the error.
"""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tideline.decoding.schemas.json_schema import read_json
from tideline.decoding.schemas.shapes import List, Map, Record, Scalar, Shape, struct_type
from tideline.decoding.spark.fields import ERROR, ERROR_CLASS, FIELDS, PAYLOAD
from tideline.model.decoding import PartPlan
from tideline.spark.session import DECODERS

_DECODED = "_decoded"


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode JSON; what comes and goes is said in `fields`."""
    name = json.dumps(specification(part)).replace("`", "``")
    made = rows.withColumn(_DECODED, F.call_function(f"{DECODERS}.`{name}`", F.col(PAYLOAD)))
    found = {name: F.col(_DECODED)[name] for name in (FIELDS, ERROR_CLASS, ERROR)}
    return made.withColumns(found).drop(_DECODED)


def specification(part: PartPlan) -> dict[str, Any]:
    """What the decoder needs to know: places in the shape and in the type are the same."""
    shape = read_json(part.reader.text)
    document = shape.fields[0].shape if shape.wrapped else shape
    # of objects inside, a list of fields may have chosen some
    closed = {"closed": True} if shape.closed else {}
    return {
        "type": struct_type((c.name, c.type) for c in part.reader.columns),
        "shape": _shape(document) | closed,
        "wrapped": shape.wrapped,
    }


def _shape(shape: Shape) -> dict[str, Any]:
    match shape:
        case Scalar(kind):
            return {"kind": kind}
        case List(item):
            return {"kind": "list", "item": _shape(item)}
        case Map(value):
            return {"kind": "map", "item": _shape(value)}
        case Record(fields):
            return {"kind": "record", "fields": [[f.name, _shape(f.shape)] for f in fields]}
    raise AssertionError(f"no shape of JSON: {shape}")
