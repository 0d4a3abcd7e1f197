"""Kafka's own serializers and Connect's converters, in a producer of Kafka's."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from kafka import KafkaProducer

from tests.worlds.connect_json import field, of, schema
from tests.worlds.serializers import connect_jars, written_by_java

SERIALIZERS = "org.apache.kafka.common.serialization"
SINGLE = {
    "text": ("StringSerializer", "text", ["é", "", "order-17"]),
    "long": ("LongSerializer", "long", [-(2**63), 2**63 - 1, 0]),
    "int": ("IntegerSerializer", "int", [-(2**31), 2**31 - 1, 0]),
    "short": ("ShortSerializer", "short", [-(2**15), 2**15 - 1, 0]),
    "double": ("DoubleSerializer", "double", [0.1, -1e300, 0.0]),
    "float": ("FloatSerializer", "float", [0.5, -1.25, 0.0]),
    "uuid": ("UUIDSerializer", "uuid", ["6f8b1b0e-6a53-4f0c-9d52-3a1c9a1b0f10"]),
    "bytes": ("ByteArraySerializer", "bytes", ["AP8=", ""]),
}
CONVERTERS = {
    "text": ("StringConverter", "string", ["é", ""]),
    "long": ("LongConverter", "int64", [-(2**63), 2**63 - 1]),
    "int": ("IntegerConverter", "int32", [-(2**31), 2**31 - 1]),
    "short": ("ShortConverter", "int16", [-(2**15), 2**15 - 1]),
    "double": ("DoubleConverter", "double", [0.1, -1e300]),
    "float": ("FloatConverter", "float", [0.5, -1.25]),
    "bytes": ("ByteArrayConverter", "bytes", ["AP8=", ""]),
}
BYTES = {"AP8=": b"\x00\xff", "": b""}
"""By how JSON has them."""
CONVERTER = "org.apache.kafka.connect"
AS_THEY_ARE = {
    f"{part}.serializer": f"{SERIALIZERS}.ByteArraySerializer" for part in ("key", "value")
}


@pytest.fixture
def writes(harness, topic):
    """Has a producer write records, with the settings of its serializers or converters."""

    def write(records, **settings):
        settings = {"bootstrap.servers": harness.broker.bootstrap_servers, **settings}
        job = {"topic": topic, "settings": settings, "records": records}
        written_by_java(job, connect_jars())

    return write


def values(found, name="value"):
    return [row[name] for row in found.typed]


@pytest.mark.parametrize("format", SINGLE)
def test_a_serializer_of_kafkas(landed, writes, format):
    """A key, and a value, and no value."""
    name, kind, given = SINGLE[format]
    records = [{"key": {kind: v}, "value": {kind: v}} for v in given]
    records.append({"key": {kind: given[0]}, "value": None})
    writes(records, **{f"{p}.serializer": f"{SERIALIZERS}.{name}" for p in ("key", "value")})
    found = landed({"format": format}, {"format": format})
    wanted = [BYTES.get(v, v) if format == "bytes" else v for v in given]
    assert (values(found), values(found, "key_value")) == ([*wanted, None], [*wanted, wanted[0]])
    assert [row["is_tombstone"] for row in found.typed] == [False] * len(given) + [True]


@pytest.mark.parametrize("is_converted", [False, True])
def test_a_boolean_is_a_byte(landed, writes, is_converted):
    given = [{"boolean": v} for v in (True, False)]
    settings = {f"{p}.serializer": f"{SERIALIZERS}.BooleanSerializer" for p in ("key", "value")}
    if is_converted:
        given = [{"schema": of("boolean"), "payload": v} for v in (True, False)]
        name = f"{CONVERTER}.converters.BooleanConverter"
        settings = AS_THEY_ARE | {"value.converter": name}
    writes([{"key": None, "value": value} for value in given], **settings)
    assert values(landed({"format": "bytes"})) == [b"\1", b"\0"]


@pytest.mark.parametrize("format", CONVERTERS)
def test_a_converter_of_one_value(landed, writes, format):
    name, kind, given = CONVERTERS[format]
    place = {"StringConverter": f"{CONVERTER}.storage"}.get(name, f"{CONVERTER}.converters")
    parts = [{"schema": of(kind), "payload": v} for v in given]
    records = [
        *({"key": p, "value": p} for p in parts),
        {"key": parts[0], "value": {"schema": of(kind), "payload": None}},
    ]
    settings = {f"{p}.converter": f"{place}.{name}" for p in ("key", "value")}
    writes(records, **AS_THEY_ARE, **settings)
    found = landed({"format": format}, {"format": format})
    wanted = [BYTES.get(v, v) if format == "bytes" else v for v in given]
    assert (values(found), values(found, "key_value")) == ([*wanted, None], [*wanted, wanted[0]])


LOGICAL = "org.apache.kafka.connect.data"
EVERY = schema(
    *(field(n, of(n)) for n in ("int8", "int16", "int32", "int64", "float", "double")),
    *(field(n, of(n)) for n in ("boolean", "string", "bytes")),
    field("price", of("bytes", f"{LOGICAL}.Decimal", parameters={"scale": "2"})),
    field("day", of("int32", f"{LOGICAL}.Date")),
    field("clock", of("int32", f"{LOGICAL}.Time")),
    field("at", of("int64", f"{LOGICAL}.Timestamp")),
    field("tags", of("array", items=of("string"))),
    field("marks", of("map", keys=of("string"), values=of("int32"))),
    field("places", of("map", keys=of("int32"), values=of("string"))),
    field("inner", {**schema(field("n", of("int64"))), "optional": True}),
)
VALUE = {
    **{"int8": -128, "int16": 32767, "int32": -1, "int64": 2**53 + 1, "float": 0.5, "double": 0.1},
    **{"boolean": True, "string": "é", "bytes": "AP8=", "price": "BNI=", "day": 19782},
    **{"clock": 86_399_999, "at": 1_706_745_599_999, "tags": ["a", None], "marks": {"a": 1}},
    **{"places": [[1, "x"]], "inner": {"n": 7}},
}
TYPED = {
    **VALUE,
    **{"bytes": b"\x00\xff", "price": Decimal("12.34"), "day": date(2024, 2, 29)},
    **{"at": datetime(2024, 1, 31, 23, 59, 59, 999_000, UTC), "marks": [("a", 1)]},
    **{"places": '[[1,"x"]]'},
}
NULLS = dict.fromkeys(VALUE)


@pytest.mark.parametrize("decimals", ["BASE64", "NUMERIC"])
def test_connects_json_with_its_schema(landed, writes, decimals):
    """A struct of each type, a row of nulls, a null that its schema allows, and no value."""
    key = {"schema": schema(field("id", of("int64"))), "payload": {"id": 1}}
    payloads = [VALUE, NULLS, None]
    optional = EVERY | {"optional": True}
    records = [{"key": key, "value": {"schema": optional, "payload": p}} for p in payloads]
    name = f"{CONVERTER}.json.JsonConverter"
    settings = {f"{p}.converter": name for p in ("key", "value")}
    writes(records, **AS_THEY_ARE, **settings, **{"value.converter.decimal.format": decimals})
    part = {"format": "json", "framing": "connect"}
    found = landed(part, {**part})
    rows = [{name: row[name] for name in VALUE} for row in found.typed]
    assert rows == [TYPED, NULLS, NULLS]
    assert values(found, "key_id") == [1, 1, 1]
    assert values(found, "is_tombstone") == [False, False, True]


def test_connects_json_without_its_schema(landed, writes, harness):
    """The payload alone; a null of a schema's is the text `null`, which `null_values` names."""
    properties = {n: {"type": "integer"} for n in ("int8", "int64")} | {
        "string": {"type": "string"}
    }
    (harness.folder / "row.json").write_text(
        json.dumps({"type": "object", "properties": properties})
    )
    optional = EVERY | {"optional": True}
    records = [{"key": None, "value": {"schema": optional, "payload": p}} for p in (VALUE, None)]
    settings = {
        "value.converter": f"{CONVERTER}.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    writes(records, **AS_THEY_ARE, **settings)
    found = landed({"format": "json", "schema": "row.json", "null_values": ["json_null"]})
    wanted = {n: VALUE[n] for n in properties}
    assert [{n: row[n] for n in properties} for row in found.typed] == [
        wanted,
        dict.fromkeys(properties),
    ]
    assert values(found, "is_tombstone") == [False, True]


def test_kafka_python(landed, harness, topic):
    """A text as the key, any JSON as the value, by functions of the caller's own."""
    (harness.folder / "row.json").write_text(
        json.dumps({"properties": {"id": {"type": "integer"}}})
    )
    producer = KafkaProducer(
        bootstrap_servers=harness.broker.bootstrap_servers,
        key_serializer=str.encode,
        value_serializer=lambda value: json.dumps(value).encode(),
    )
    producer.send(topic, key="order-é", value={"id": 7})
    producer.close()
    found = landed({"format": "json", "schema": "row.json"}, {"format": "text"})
    assert (values(found, "id"), values(found, "key_value")) == ([7], ["order-é"])
