"""Confluent's own serializers: of its client for Python, and KafkaJS' for Node."""

import base64
import json
import shutil
from contextlib import closing
from urllib.request import urlopen

import pytest

from devstack.registry import PATH
from tests.worlds.http_stub import HttpStub, json_answer
from tests.worlds.serializers import written_by_node, written_by_python
from tideline.model.decoding import PLAIN_ID, WriterSchema
from tideline.registry.protobuf_files import compiled_protobuf

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
ROWS = [{"id": 2**53 + 1, "note": "é", "tags": ["a", "b"]}, {"id": -1, "note": None, "tags": []}]
DOCUMENT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Order",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": ["string", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
    },
}
MESSAGE = """syntax = "proto3";
package shop;
message Other { string name = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  repeated string tags = 3;
  message Line { int32 n = 1; }
}
"""


@pytest.fixture
def writes(harness, registry, topic):
    """Has Confluent's client write records."""

    def write(format, schema, values, serializer=(), **settings):
        settings = {
            "client": {"bootstrap.servers": harness.broker.bootstrap_servers},
            "registry": {"url": f"http://127.0.0.1:{registry.port}{PATH}"},
            "format": format,
            "serializer": dict(serializer),
            **settings,
        }
        records = [{"value": value} for value in values]
        job = {"topic": topic, "settings": settings, "schema": schema, "records": records}
        written_by_python(job)
        return f"{topic}-value"

    return write


def columns(found, like):
    return [{name: row[name] for name in like} for row in found.typed]


NOTHING = dict.fromkeys(ROWS[0])


def test_confluents_avro(landed, writes):
    subject = writes("avro", json.dumps(ORDER), [*ROWS, None])
    found = landed({"format": "avro", "subject": subject})
    assert columns(found, ROWS[0]) == [*ROWS, NOTHING]


def test_confluents_json_schema(landed, writes):
    subject = writes("json", json.dumps(DOCUMENT), [*ROWS, None])
    found = landed({"format": "json", "subject": subject})
    assert columns(found, ROWS[0]) == [*ROWS, NOTHING]


def described(text):
    """A schema's files, as protoc has them."""
    return base64.b64encode(compiled_protobuf(WriterSchema(PLAIN_ID, text, ""))).decode()


@pytest.mark.parametrize("name", ["shop.Order", "shop.Other", "shop.Order.Line"])
def test_confluents_protobuf(landed, writes, registry, name):
    """The registry has what protoc has made of the file, and no source of it."""
    values = {"shop.Other": [{"name": "é"}], "shop.Order.Line": [{"n": 7}]}.get(name, ROWS)
    subject = writes("protobuf", described(MESSAGE), values, message=name)
    url = f"http://127.0.0.1:{registry.port}{PATH}/subjects/{subject}/versions/latest"
    assert "syntax" not in json.load(urlopen(url))["schema"]
    found = landed({"format": "protobuf", "subject": subject, "message": name})
    assert columns(found, values[0]) == values


GUID = "6f8b1b0e-6a53-4f0c-9d52-3a1c9a1b0f10"


def test_an_id_in_a_header_is_told_by_its_name(landed, writes, registry, topic):
    """Confluent's registry has an id of this kind beside the number; here a server tells one."""
    registry.register(f"{topic}-value", json.dumps(ORDER))
    known = json_answer({"id": 1, "guid": GUID, "schema": json.dumps(ORDER)})
    unknown = json_answer({"error_code": 404}, 404)
    with closing(HttpStub()) as stub:
        # the client asks first which subject goes with the topic: one by the topic's name
        stub.answer = lambda asked: (unknown if "/associations/" in asked.path else known)(asked)
        settings = {"schema.id.serializer": "header"}
        url = f"http://127.0.0.1:{stub.port}"
        subject = writes("avro", json.dumps(ORDER), ROWS, settings, registry={"url": url})
    found = landed({"format": "avro", "subject": subject})
    assert found.typed == []
    assert {row["error_class"] for row in found.aside} == {"framing"}
    assert all("__value_schema_id" in row["error"] for row in found.aside)


needs_node = pytest.mark.skipif(shutil.which("npm") is None, reason="KafkaJS comes by npm")


@pytest.fixture
def node_writes(harness, registry, topic):
    """Has KafkaJS write records."""

    def write(format, schema, values):
        settings = {
            "brokers": [harness.broker.bootstrap_servers],
            "registry": f"http://127.0.0.1:{registry.port}{PATH}",
            "type": format.upper(),
        }
        records = [{"value": value} for value in values]
        written_by_node(
            {"topic": topic, "settings": settings, "schema": schema, "records": records}
        )
        return f"{topic}-value"

    return write


@needs_node
@pytest.mark.parametrize(("format", "schema"), [("avro", ORDER), ("json", DOCUMENT)])
def test_kafkajs_avro_and_json(landed, node_writes, format, schema):
    """Its values are of JavaScript, so whole numbers have 53 bits."""
    rows = [{**ROWS[0], "id": 2**53 - 2}, ROWS[1]]
    subject = node_writes(format, json.dumps(schema), [*rows, None])
    found = landed({"format": format, "subject": subject})
    assert columns(found, rows[0]) == [*rows, NOTHING]


@needs_node
def test_kafkajs_protobuf_has_no_indexes(landed, node_writes):
    schema = 'syntax = "proto3"; package shop; message Order { int64 id = 1; string note = 2; }'
    subject = node_writes("protobuf", schema, [{"id": 7, "note": "a"}, {"note": "é"}])
    found = landed({"format": "protobuf", "subject": subject})
    assert found.typed == []
    assert [row["error_class"] for row in found.aside] == ["framing"] * 2
    assert all("message indexes" in row["error"] for row in found.aside)
