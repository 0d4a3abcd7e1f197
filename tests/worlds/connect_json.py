"""Schemas and records as Kafka Connect's JSON converter writes them."""

import base64
import json


def of(kind, name=None, **more):
    """A type."""
    return {
        "type": kind,
        "optional": True,
        **({"name": name, "version": 1} if name else {}),
        **more,
    }


def field(name, kind):
    """A field of a struct."""
    return {**kind, "field": name}


def schema(*fields, **more):
    """A struct."""
    return {"type": "struct", "fields": list(fields), "optional": False, **more}


ANY_SCALE = schema(
    field("scale", of("int32")),
    field("value", of("bytes")),
    name="io.debezium.data.VariableScaleDecimal",
)
KINDS = {
    "id": of("int64"),
    "ratio": of("double"),
    "note": of("string"),
    "paid": of("boolean"),
    "raw": of("bytes"),
    "day": of("int32", "io.debezium.time.Date"),
    "milli": of("int64", "io.debezium.time.Timestamp"),
    "micro": of("int64", "io.debezium.time.MicroTimestamp"),
    "zoned": of("string", "io.debezium.time.ZonedTimestamp"),
    "total": of("bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "2"}),
    "any": ANY_SCALE,
    "counts": of("map", keys=of("string"), values=of("int32")),
}
"""One of each kind that a payload writes in a way of its own."""


def record(schema, payload):
    """A record's bytes."""
    return json.dumps({"schema": schema, "payload": payload}).encode()


def base64_of(data):
    """Bytes as the converter writes them."""
    return base64.b64encode(data).decode()
