"""Framings that are told by their names: AWS Glue's, and Avro's single-object encoding."""

import json
from contextlib import closing

import pytest

from tests.worlds.http_stub import HttpStub, json_answer
from tests.worlds.serializers import connect_jars, glue_jars, written_by_java

BYTES = "org.apache.kafka.common.serialization.ByteArraySerializer"
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
VALUES = [{"id": n} for n in (1, -1)]


@pytest.fixture
def writes(harness, topic, registry):
    """Has a producer write records, each told by this name."""
    registry.register(f"{topic}-value", json.dumps(ORDER))

    def write(kind, jars, variables=(), **settings):
        records = [{"key": None, "value": {kind: value, "schema": ORDER}} for value in VALUES]
        settings = {
            "bootstrap.servers": harness.broker.bootstrap_servers,
            "key.serializer": BYTES,
            "value.serializer": BYTES,
            **settings,
        }
        job = {"topic": topic, "settings": settings, "records": records}
        written_by_java(job, jars, **dict(variables))
        return {"format": "avro", "subject": f"{topic}-value"}

    return write


def told(found):
    assert found.typed == []
    assert [row["error_class"] for row in found.aside] == ["framing"] * len(VALUES)
    return {row["error"] for row in found.aside}


@pytest.mark.parametrize("compression", ["NONE", "ZLIB"])
def test_the_framing_of_glue(landed, writes, compression):
    """The serializer itself; what it asks AWS, a server here answers."""
    answer = {"SchemaVersionId": "6f8b1b0e-6a53-4f0c-9d52-3a1c9a1b0f10", "Status": "AVAILABLE"}
    with closing(HttpStub()) as stub:
        stub.answer = json_answer(answer)
        settings = {
            "value.serializer": "com.amazonaws.services.schemaregistry.serializers"
            ".GlueSchemaRegistryKafkaSerializer",
            "region": "eu-west-1",
            "endpoint": f"http://127.0.0.1:{stub.port}",
            "dataFormat": "AVRO",
            "schemaName": "orders",
            "registry.name": "shop",
            "compression": compression,
        }
        names = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        value = writes("avro", glue_jars(), dict.fromkeys(names, "x"), **settings)
    (said,) = told(landed(value))
    assert "begins as AWS Glue's serializers do" in said


def test_the_single_object_encoding(landed, writes):
    (said,) = told(landed(writes("single", connect_jars())))
    assert "begins as Avro's single-object encoding does" in said
