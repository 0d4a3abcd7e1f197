"""Protobuf, by our own decoder in Spark's JVM (`spark/java/ProtobufDecoder.java`, ADR 49).

A writer's message is told with the numbers and types of its fields, and with the places of their
columns. A number that the table has no column for is told as well: in another encoding it shows
that a record is another message.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from pyspark.sql import DataFrame

from tideline.decoding.schemas.protobuf import read_protobuf
from tideline.decoding.schemas.shapes import Enum, List, Map, Record, Scalar, Shape
from tideline.decoding.spark.fields import SCHEMA_ID, by_decoder
from tideline.model.decoding import PartPlan, WriterSchema

_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_Columns = dict[int, tuple[int, Shape]]
"""Place and shape of a column by the number of its field."""


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode Protobuf; what comes and goes is said in `fields`."""
    columns = _columns(read_protobuf(part.reader.text)) if part.reader.text else {}
    specification = {
        "framed": part.framing == "confluent",
        "writers": [_writer(writer, columns) for writer in part.writers],
    }
    return by_decoder(rows, part, specification, SCHEMA_ID)


def _columns(record: Record) -> _Columns:
    return {f.number: (place, f.shape) for place, f in enumerate(record.fields)}


def _writer(writer: WriterSchema, columns: _Columns) -> dict[str, Any]:
    described = json.loads(writer.text)
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(base64.b64decode(described["files"])).file:
        pool.Add(file)
    message = pool.FindMessageTypeByName(described["message"])
    names = {",".join(map(str, path)): name for name, path in described["messages"].items()}
    return {"id": writer.schema_id, "message": _message(message, columns), "names": names}


def _message(message: Any, columns: _Columns) -> dict[str, Any]:
    fields = [_field(field, *columns.get(field.number, (-1, None))) for field in message.fields]
    return {"name": message.full_name, "columns": len(columns), "fields": fields}


def _field(field: Any, column: int, shape: Shape | None) -> dict[str, Any]:
    oneof = field.containing_oneof
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    facts = {
        "number": field.number,
        "name": field.name,
        "type": FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower(),
        "column": column,
        "kind": "none",
        "list": isinstance(shape, List),
        "map": isinstance(shape, Map),
        "repeated": field.is_repeated and not is_map,
        "presence": field.has_presence,
        "required": field.is_required,
        "oneof": -1 if oneof is None else oneof.index,
        "wrapper": False,
    }
    match shape:
        case None:
            return facts
        case Map(value):
            key, inner = (field.message_type.fields_by_number[n] for n in (1, 2))
            entry = [_field(key, 0, None) | {"kind": "key"}, _field(inner, 1, value)]
            name = field.message_type.full_name
            return facts | {"message": {"name": name, "columns": 2, "fields": entry}}
        case List(item):
            return facts | _value(field, item)
    return facts | _value(field, shape)


def _value(field: Any, shape: Shape) -> dict[str, Any]:
    """What a single value is, and what is inside of it."""
    inner = field.message_type
    if isinstance(shape, Record):
        return {"kind": "record", "message": _message(inner, _columns(shape))}
    if isinstance(shape, Enum) or field.type == FieldDescriptor.TYPE_ENUM:  # or a text by now
        named = {
            str(v.number): v.name for v in reversed(field.enum_type.values)
        }  # the first counts
        first = field.default_value if field.type == FieldDescriptor.TYPE_ENUM else 0
        return {"kind": "enum", "symbols": named, "first": first}
    assert isinstance(shape, Scalar)
    if shape.kind == "timestamp-micros":
        parts: _Columns = {1: (0, Scalar("long")), 2: (1, Scalar("long"))}
        return {"kind": "time", "message": _message(inner, parts)}
    if inner is not None and inner.full_name in _WRAPPERS:
        wrapped = _message(inner, {1: (0, shape)})
        return {"kind": shape.kind, "message": wrapped, "wrapper": True}
    return {"kind": shape.kind}
