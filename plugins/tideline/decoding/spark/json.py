"""JSON, by our own decoder in Spark's JVM (`spark/java/JsonDecoder.java`, ADR 48)."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from tideline.decoding.schemas.json_schema import CONNECT, read_json
from tideline.decoding.schemas.shapes import List, Map, Record, Scalar, Shape
from tideline.decoding.spark.fields import by_decoder
from tideline.model.decoding import PartPlan


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode JSON; what comes and goes is said in `fields`."""
    shape = read_json(part.reader.text) if part.reader.text else Record(())
    document = shape.fields[0].shape if shape.wrapped else shape
    # of objects inside, a list of fields may have chosen some
    closed = {"closed": True} if shape.closed else {}
    told = {"shape": _shape(document) | closed, "wrapped": shape.wrapped}
    return by_decoder(rows, part, told | ({"payload": True} if part.framing == "connect" else {}))


def _shape(shape: Shape) -> dict[str, Any]:
    match shape:
        case Scalar(kind, scale) if kind in CONNECT:
            text = {"text": True} if CONNECT[kind] == "string" else {}
            return {"kind": f"c{kind}", **text, **({"scale": scale} if scale else {})}
        case Scalar(kind):
            return {"kind": kind}
        case List(item):
            return {"kind": "list", "item": _shape(item)}
        case Map(value):
            return {"kind": "map", "item": _shape(value)}
        case Record(fields):
            return {"kind": "record", "fields": [[f.name, _shape(f.shape)] for f in fields]}
    raise AssertionError(f"no shape of JSON: {shape}")
