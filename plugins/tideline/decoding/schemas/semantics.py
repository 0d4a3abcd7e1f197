"""Kafka Connect's and Debezium's logical types: what their users expect a column to be. Pure.

Connect's converters write a number, a text or bytes, and say what it means in `connect.name` (Avro)
or `name` (Connect's JSON). What is not listed here keeps the type that it is written in: times of
day (Delta has none), nanoseconds (a BIGINT holds all of them), durations, intervals, texts (uuid,
JSON, XML, enum), bits.

Sources: docs of Debezium's connectors, "Temporal types" and "Decimal types"; Connect's classes
`org.apache.kafka.connect.data.*`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tideline.decoding.schemas.shapes import MAX_PRECISION, Scalar

_DECIMAL = "org.apache.kafka.connect.data.Decimal"
ANY_SCALE = "io.debezium.data.VariableScaleDecimal"
_SCALES = {str(scale): scale for scale in range(MAX_PRECISION + 1)}
_TYPES = {
    ("int", "org.apache.kafka.connect.data.Date"): "date",
    ("int", "io.debezium.time.Date"): "date",
    ("long", "org.apache.kafka.connect.data.Timestamp"): "timestamp-millis",
    ("long", "io.debezium.time.Timestamp"): "ntz-millis",
    ("long", "io.debezium.time.MicroTimestamp"): "ntz-micros",
    ("string", "io.debezium.time.ZonedTimestamp"): "zoned",
}
"""What it is written as, and its name -> kind of a scalar."""


def semantic_type(kind: str, name: object, parameters: object, written: Scalar) -> Scalar | None:
    """The scalar that a logical type of Connect's or Debezium's is; None for one not listed.

    Args:
        kind: What it is written as, in Avro's words: `int`, `long`, `string`, `bytes`.
        name: The logical type's; anything that a schema may say there.
        parameters: Of the logical type, as name; a decimal's `scale` is a text.
        written: What it is without its meaning.
    """
    if kind == "bytes" and name == _DECIMAL:
        given = parameters.get("scale") if isinstance(parameters, dict) else None
        scale = _SCALES.get(str(given))
        return None if scale is None else Scalar("decimal", scale, written)
    found = _TYPES.get((kind, str(name)))
    return None if found is None else Scalar(found, written=written)


def is_any_scale(record: Mapping[str, Any]) -> bool:
    """Whether a record is a decimal that brings its own scale.

    Args:
        record: A node of Avro's tree.
    """
    fields = [(f["name"], f["type"]["type"]) for f in record["fields"]]
    is_named = ANY_SCALE in (record.get("connect.name"), record.get("was", record["name"]))
    return is_named and fields == [("scale", "int"), ("value", "bytes")]
