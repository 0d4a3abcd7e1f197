"""JSON, by our own decoder in Spark's JVM (`spark/java/JsonDecoder.java`, ADR 48)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from tideline.decoding.schemas.json_schema import json_takes_points, read_json
from tideline.decoding.schemas.shapes import List, Map, Record, Scalar, Shape
from tideline.decoding.spark.fields import by_decoder
from tideline.model.decoding import PartPlan

_OF_DAY = {
    "date": 1,
    "timestamp-millis": 86_400_000,
    "ntz-millis": 86_400_000,
    "ntz-micros": 86_400_000_000,
}
"""Kind of a number that is a time -> how many of its units a day has."""
_NAMES = {"bytes": "cbytes", "zoned": "czoned", "double": "cfloat"}


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode JSON; what comes and goes is said in `fields`."""
    shape = read_json(part.reader.text) if part.reader.text else Record(())
    document = shape.fields[0].shape if shape.wrapped else shape
    # of objects inside, a list of fields may have chosen some
    closed = {"closed": True} if shape.closed else {}
    specification = {"shape": _shape(document) | closed, "wrapped": shape.wrapped}
    if part.framing == "connect":
        specification["payload"] = True
    elif part.form > 1 and any(json_takes_points(writer.text) for writer in part.writers):
        # Not in the plans of former versions: a clear gives their rows.
        specification["points"] = True
    return by_decoder(rows, part, specification)


def _shape(shape: Shape) -> dict[str, Any]:
    match shape:
        case Scalar("any-scale"):
            parts = (("scale", Scalar("integer")), ("value", Scalar("bytes")))
            return {"kind": "cany", "fields": [[name, _shape(part)] for name, part in parts]}
        case Scalar(kind) if kind in _OF_DAY:
            return {"kind": "ctime", "of_day": _OF_DAY[kind]}
        case Scalar("decimal", scale):
            return {"kind": "cdecimal", "scale": scale}
        case Scalar(kind) if kind in _NAMES:
            return {"kind": _NAMES[kind]}
        case Scalar(kind):
            return {"kind": kind}
        case List(item):
            return {"kind": "list", "item": _shape(item)}
        case Map(value):
            return {"kind": "map", "item": _shape(value)}
        case Record(fields):
            return {"kind": "record", "fields": [[f.name, _shape(f.shape)] for f in fields]}
    raise AssertionError(f"no shape of JSON: {shape}")
