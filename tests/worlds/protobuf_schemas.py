"""Protobuf's schemas and records for tests."""

from __future__ import annotations

from tideline.decoding.schemas.merging import MergedSchemas, Protobuf, reader_schema
from tideline.model.decoding import PLAIN_ID, PartPlan, WriterSchema
from tideline.registry.protobuf_files import compiled_protobuf

PROTO3 = 'syntax = "proto3";\npackage shop;\n'
PROTO2 = 'syntax = "proto2";\npackage shop;\n'

ALL = (
    PROTO3
    + """
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum Color { NONE = 0; RED = 1; }
message Line { string sku = 1; repeated int32 sizes = 2; Color color = 3; }
message All {
  uint32 u32 = 1; uint64 u64 = 2; fixed64 f64 = 3; sint64 s64 = 4; float f = 5; bool b = 6;
  bytes raw = 7; Color color = 8; repeated Color colors = 9; map<int32, Line> lines = 10;
  map<string, string> texts = 11; Line line = 12; repeated Line more = 13;
  oneof one { string left = 14; Line right = 15; }
  google.protobuf.Timestamp at = 16; google.protobuf.Duration took = 17;
  google.protobuf.Int64Value count = 18; google.protobuf.StringValue text = 19;
  repeated google.protobuf.Timestamp times = 20; optional string from = 21;
  map<bool, int64> flags = 22;
}
"""
)
"""Each kind of field."""


def writer(schema_id, text, references=()):
    """A writer schema as the registry gives it."""
    return WriterSchema(
        schema_id, text, f"digest of {schema_id}", f"orders-value:{schema_id}", tuple(references)
    )


def merge(*texts, previous=None, first_id=1, message=None, fields=()) -> MergedSchemas:
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
