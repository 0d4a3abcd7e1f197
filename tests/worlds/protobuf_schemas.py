"""Protobuf's schemas and records for tests."""

from __future__ import annotations

from tideline.decoding.schemas.merging import Merged, Protobuf, reader_schema
from tideline.model.decoding import PLAIN_ID, PartPlan, WriterSchema
from tideline.registry.protobuf_files import compiled_protobuf

PROTO3 = 'syntax = "proto3";\npackage shop;\n'
PROTO2 = 'syntax = "proto2";\npackage shop;\n'


def writer(schema_id, text, references=()):
    """A writer schema as the registry gives it."""
    return WriterSchema(
        schema_id, text, f"digest of {schema_id}", f"orders-value:{schema_id}", tuple(references)
    )


def merge(*texts, previous=None, first_id=1, message=None, fields=()) -> Merged:
    """Merge schemas that got their ids in order."""
    writers = [writer(first_id + n, text) for n, text in enumerate(texts)]
    by = Protobuf(compiled_protobuf, message)
    return reader_schema("value", "protobuf", writers, previous, (), fields, by)


def protobuf_part(texts, framing="confluent", message=None, **others) -> PartPlan:
    """How Protobuf is decoded: writers' schemas by id, or the one schema."""
    texts = {PLAIN_ID: texts} if isinstance(texts, str) else texts
    writers = [writer(number, text) for number, text in texts.items()]
    by = Protobuf(compiled_protobuf, message)
    merged = reader_schema("value", "protobuf", writers, None, protobuf=by)
    assert not merged.misfits, merged.misfits
    return PartPlan(
        part="value",
        format="protobuf",
        framing=framing,
        subject="orders-value",
        writers=merged.writers,
        unknown=others.get("unknown", ()),
        foreign=others.get("foreign", ()),
        reader=merged.reader,
        message=message,
    )
