"""Writes records to topics by Confluent's client for Python, with its serializers.

Reads a job as JSON: `topic`, `settings` (`client` of the producer, `registry` of the registry's
client, `format`, `serializer` of the serializer), `schema`, `records` with `value`.
"""

import base64
import json
import sys

from confluent_kafka import SerializingProducer
from confluent_kafka import schema_registry as sr
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

FUNCTIONS = {"schema.id.serializer": {"header": "header_schema_id_serializer"}}
"""Settings that are functions: by their names here."""


def serializer(job, registry):
    """The serializer of a job, and what makes its values of JSON."""
    settings = job["settings"]
    own = {
        name: getattr(sr, FUNCTIONS[name][value]) if name in FUNCTIONS else value
        for name, value in settings.get("serializer", {}).items()
    }
    if settings["format"] == "avro":
        return AvroSerializer(registry, job["schema"], conf=own), dict
    if settings["format"] == "json":
        return JSONSerializer(job["schema"], registry, conf=own), dict
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(base64.b64decode(job["schema"])).file:
        pool.Add(file)
    kind = GetMessageClass(pool.FindMessageTypeByName(settings["message"]))
    return ProtobufSerializer(kind, registry, own), lambda value: ParseDict(
        value, kind(), descriptor_pool=pool
    )


def write(job):
    """Write a job's records."""
    registry = SchemaRegistryClient(job["settings"]["registry"])
    serialize, made = serializer(job, registry)
    producer = SerializingProducer({**job["settings"]["client"], "value.serializer": serialize})
    failed = []
    for record in job["records"]:
        value = record["value"]
        producer.produce(
            job["topic"],
            value=None if value is None else made(value),
            headers=[],
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
    producer.flush()
    if failed:
        sys.exit(f"not written: {failed}")


if __name__ == "__main__":
    write(json.load(sys.stdin))
