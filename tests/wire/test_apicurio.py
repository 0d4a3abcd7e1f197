"""Apicurio's serializers of both generations, in each of their ways to say which schema it is."""

import base64
import json

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from devstack.protobuf_messages import message_class
from tests.worlds.connect_json import field, of, schema
from tests.worlds.serializers import apicurio_jars, connect_jars, written_by_java
from tideline.model.decoding import PLAIN_ID, WriterSchema
from tideline.registry.protobuf_files import compiled_protobuf

TEXT = "org.apache.kafka.common.serialization.StringSerializer"
SERDES = "io.apicurio.registry.serde"
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
DOCUMENT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "note": {"type": ["string", "null"]}},
}
MESSAGE = """syntax = "proto3";
package shop;
message Other { string name = 1; }
message Order { int64 id = 1; string note = 2; }
"""
ROWS = [{"id": 2**53 + 1, "note": "é"}, {"id": -1, "note": None}]
NOTHING = dict.fromkeys(ROWS[0])
AVRO = [
    {"avro": {"id": row["id"], "note": row["note"] and {"string": row["note"]}}, "schema": ORDER}
    for row in ROWS
]
JSON = [{"json": row} for row in ROWS]
ORDINARY = {"as-confluent": "true", "use-id": "contentId", "headers.enabled": "false"}
"""Of the second generation, with the ids that Confluent's API knows."""
EIGHT = {"id-handler": f"{SERDES}.Legacy8ByteIdHandler"}


@pytest.fixture
def writes(harness, registry, topic):
    """Has one generation's serializer write records, under the subject `TOPIC-value`."""

    def write(generation, serializer, values, settings):
        settings = {
            "url": f"http://127.0.0.1:{registry.port}/apis/registry/v{generation}",
            "auto-register": "true",
            "artifact-resolver-strategy": f"{SERDES}.strategy.TopicIdStrategy",
            **settings,
        }
        settings = {f"apicurio.registry.{name}": value for name, value in settings.items()}
        settings |= {"key.serializer": TEXT, "value.serializer": f"{SERDES}.{serializer}"}
        settings["bootstrap.servers"] = harness.broker.bootstrap_servers
        records = [{"key": None, "value": value} for value in [*values, None]]
        job = {"topic": topic, "settings": settings, "records": records}
        written_by_java(job, {2: connect_jars, 3: apicurio_jars}[generation]())
        return f"{topic}-value"

    return write


BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"


@pytest.fixture
def converts(harness, registry, topic):
    """Has a converter of the second generation write structs."""

    def write(converter):
        url = f"http://127.0.0.1:{registry.port}/apis/registry/v2"
        strategy = f"{SERDES}.strategy.TopicIdStrategy"
        own = {"url": url, "auto-register": "true", "artifact-resolver-strategy": strategy}
        own |= ORDINARY
        settings = {f"value.converter.apicurio.registry.{name}": to for name, to in own.items()}
        settings["value.converter"] = f"io.apicurio.registry.utils.converter.{converter}"
        settings |= {"key.serializer": BYTES, "value.serializer": BYTES}
        settings["bootstrap.servers"] = harness.broker.bootstrap_servers
        struct = schema(field("id", of("int64")), field("note", of("string")), name="shop.Order")
        values = [{"schema": struct, "payload": row} for row in ROWS]
        records = [{"key": None, "value": value} for value in values]
        written_by_java({"topic": topic, "settings": settings, "records": records}, connect_jars())
        return f"{topic}-value"

    return write


def test_apicurios_avro_converter(landed, converts):
    found = landed({"format": "avro", "subject": converts("AvroConverter")})
    assert (columns(found), found.aside) == (ROWS, [])


def test_apicurios_json_converter(landed, converts):
    """It writes the id into a document around the row."""
    found = landed({"format": "json", "subject": converts("ExtJsonConverter")})
    assert (found.typed, [row["error_class"] for row in found.aside]) == ([], ["framing"] * 2)


@pytest.fixture
def known(registry, topic):
    """Registers a schema beforehand."""

    def register(schema, kind):
        registry.register(f"{topic}-value", schema, kind)

    return register


def columns(found):
    return [{name: row[name] for name in NOTHING} for row in found.typed]


READ = {
    "2-as-confluent": (2, ORDINARY),
    "3": (3, {}),
    "3-content-ids": (3, {"use-id": "contentId"}),
}


@pytest.mark.parametrize("way", READ)
def test_apicurios_avro(landed, writes, way):
    generation, settings = READ[way]
    subject = writes(generation, "avro.AvroKafkaSerializer", AVRO, settings)
    found = landed({"format": "avro", "subject": subject})
    assert (columns(found), found.aside) == ([*ROWS, NOTHING], [])


@pytest.mark.parametrize("way", READ)
def test_apicurios_json_schema(landed, writes, known, way):
    known(json.dumps(DOCUMENT), "JSON")
    generation, settings = READ[way]
    settings = {**settings, "auto-register": "false", "find-latest": "true"}
    subject = writes(generation, "jsonschema.JsonSchemaKafkaSerializer", JSON, settings)
    found = landed({"format": "json", "subject": subject})
    assert (columns(found), found.aside) == ([*ROWS, NOTHING], [])


ASIDE = {
    "2-8-bytes": (2, ORDINARY | {"as-confluent": "false"}, "an id of 8 bytes"),
    "2-header": (2, ORDINARY | {"headers.enabled": "true"}, "apicurio.value.contentId"),
    "2-header-global": (
        2,
        ORDINARY | {"headers.enabled": "true", "use-id": "globalId"},
        "apicurio.value.globalId",
    ),
    "2-as-it-comes": (2, {}, ""),
    "3-8-bytes": (3, EIGHT, "an id of 8 bytes"),
    "3-header": (3, {"headers.enabled": "true"}, "apicurio.value.contentId"),
    "3-header-global": (
        3,
        {"headers.enabled": "true", "use-id": "globalId"},
        "apicurio.value.globalId",
    ),
}


@pytest.mark.parametrize(
    ("format", "way"),
    [*(("avro", way) for way in ASIDE), *(("json", way) for way in ("2-8-bytes", "3-header"))],
)
def test_other_ids_of_apicurios_are_told(landed, writes, known, format, way):
    generation, settings, said = ASIDE[way]
    serializer, values = "avro.AvroKafkaSerializer", AVRO
    if format == "json":
        known(json.dumps(DOCUMENT), "JSON")
        settings = {**settings, "auto-register": "false", "find-latest": "true"}
        serializer, values = "jsonschema.JsonSchemaKafkaSerializer", JSON
    subject = writes(generation, serializer, values, settings)
    found = landed({"format": format, "subject": subject})
    assert columns(found) == [NOTHING]
    assert [row["error_class"] for row in found.aside] == ["framing"] * len(ROWS)
    assert all(said in row["error"] for row in found.aside)


@pytest.mark.parametrize("generation", [2, 3])
def test_global_ids_of_apicurios_are_no_ids_of_the_api(landed, writes, registry, generation):
    """Of contents that several artifacts have, there are more global ids than ids."""
    for number in range(20):
        registry.register(f"of-others-{generation}-{number}", json.dumps(DOCUMENT), "JSON")
    settings = ORDINARY if generation == 2 else {}
    settings = {**settings, "use-id": "globalId"}
    subject = writes(generation, "avro.AvroKafkaSerializer", AVRO, settings)
    found = landed({"format": "avro", "subject": subject})
    assert columns(found) == [NOTHING]
    assert {row["error_class"] for row in found.aside} <= {"unknown_schema", "wrong_subject"}


@pytest.fixture
def messages():
    """Two records, as the serializer gets them."""
    files = FileDescriptorSet.FromString(compiled_protobuf(WriterSchema(PLAIN_ID, MESSAGE, "")))
    (file,) = files.file
    kind = message_class(MESSAGE, "shop.Order")
    made = [kind(**{k: v for k, v in row.items() if v is not None}) for row in ROWS]
    return [
        {
            "protobuf": base64.b64encode(message.SerializeToString()).decode(),
            "message": "Order",
            "file": base64.b64encode(file.SerializeToString()).decode(),
        }
        for message in made
    ]


def test_apicurios_protobuf_with_names_is_told(landed, writes, messages):
    subject = writes(3, "protobuf.ProtobufKafkaSerializer", messages, {})
    found = landed({"format": "protobuf", "subject": subject, "message": "shop.Order"})
    assert columns(found) == [NOTHING]
    assert [row["error_class"] for row in found.aside] == ["framing"] * 2
    assert all("the message's name stands in place" in row["error"] for row in found.aside)


def test_apicurios_protobuf_with_indexes(landed, writes, messages):
    settings = {
        "serde.send-type-ref": "false",
        "serde.send-indexes": "true",
    }
    subject = writes(3, "protobuf.ProtobufKafkaSerializer", messages, settings)
    found = landed({"format": "protobuf", "subject": subject, "message": "shop.Order"})
    assert columns(found) == [ROWS[0], ROWS[1] | {"note": ""}, NOTHING]
