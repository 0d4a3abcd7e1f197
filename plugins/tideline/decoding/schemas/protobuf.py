"""Protobuf: what a message's fields hold, and the reader of merged shapes. Pure.

A field is its number: under another name it is the same column, and its name under another number
is another column. Schemas come compiled, as protoc's set of files, imports first. Extensions make
no columns.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Type
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tideline.decoding.schemas.shapes import (
    Enum,
    Field,
    List,
    Map,
    Record,
    Scalar,
    Shape,
    asked_shape,
)
from tideline.model.decoding import SchemaUnusable

MAX_FIELDS = 20_000
MAX_DEPTH = 64
KINDS = {
    Type.TYPE_DOUBLE: "double",
    Type.TYPE_FLOAT: "float",
    Type.TYPE_INT32: "int",
    Type.TYPE_SINT32: "int",
    Type.TYPE_SFIXED32: "int",
    Type.TYPE_UINT32: "int",
    Type.TYPE_FIXED32: "int",
    Type.TYPE_INT64: "long",
    Type.TYPE_SINT64: "long",
    Type.TYPE_SFIXED64: "long",
    Type.TYPE_UINT64: "unsigned long",
    Type.TYPE_FIXED64: "unsigned long",
    Type.TYPE_BOOL: "boolean",
    Type.TYPE_STRING: "string",
    Type.TYPE_BYTES: "bytes",
}
"""Protobuf's scalars -> kinds of scalars; both 32-bit kinds fit a long."""
_WELL_KNOWN = {
    ".google.protobuf.Timestamp": "timestamp-micros",
    ".google.protobuf.DoubleValue": "double",
    ".google.protobuf.FloatValue": "float",
    ".google.protobuf.Int64Value": "long",
    ".google.protobuf.UInt64Value": "unsigned long",
    ".google.protobuf.Int32Value": "int",
    ".google.protobuf.UInt32Value": "int",
    ".google.protobuf.BoolValue": "boolean",
    ".google.protobuf.StringValue": "string",
    ".google.protobuf.BytesValue": "bytes",
}


def protobuf_shape(
    compiled: bytes, wanted: str | None, known: str, listed: Collection[str] | None = None
) -> Record:
    """What the records of a compiled schema hold; the record's name is the message's.

    Args:
        compiled: Protoc's set of files.
        wanted: The message's full name; None for the known one if the schema has it, else for the
            schema's first.
        known: The message that the table has been made of; empty for none.
        listed: The paths of the fields that are asked for; None for all.

    Raises:
        SchemaUnusable: There is no such message, or no columns can be made of it.
    """
    names = messages(compiled)
    name = wanted or (known if known in names else next(iter(names), None))
    if name is None:
        raise SchemaUnusable("", "it has no message")
    if name not in names:
        raise SchemaUnusable("", f"it has no message {name}; there are: {', '.join(names)}")
    return _Reading(compiled, listed).record(f".{name}", ())


def messages(compiled: bytes) -> dict[str, tuple[int, ...]]:
    """The messages of a schema's own file by full name, in order, each with its indexes.

    Indexes lead from the file to the message, as Confluent's framing has them; the messages that
    protoc makes of maps do not count.
    """
    found: dict[str, tuple[int, ...]] = {}

    def note(declared: Iterable[Any], space: str, path: tuple[int, ...]) -> None:
        own = [m for m in declared if not m.options.map_entry]
        for number, message in enumerate(own):
            name = f"{space}{message.name}"
            found[name] = (*path, number)
        for number, message in enumerate(own):
            note(message.nested_type, f"{space}{message.name}.", (*path, number))

    file = FileDescriptorSet.FromString(compiled).file[-1]
    note(file.message_type, f"{file.package}." if file.package else "", ())
    return found


def protobuf_for_decoder(compiled: bytes, message: str) -> str:
    """A writer schema as the decoder is given it; a clear does not compile it again."""
    described: dict[str, object] = {"message": message, "messages": messages(compiled)}
    return json.dumps(described | {"files": base64.b64encode(compiled).decode()})


def protobuf_of_decoder(text: str) -> Record:
    """The shape of the message in what `protobuf_for_decoder` wrote, as far as it has columns."""
    described = json.loads(text)
    return protobuf_shape(base64.b64decode(described["files"]), described["message"], "", ())


class _Reading:
    """A set of files, and the messages that are being read."""

    def __init__(self, compiled: bytes, listed: Collection[str] | None) -> None:
        self.listed = listed
        self.types: dict[str, Any] = {}
        for file in FileDescriptorSet.FromString(compiled).file:
            self._note(f".{file.package}" if file.package else "", file.message_type, file)
        self.inside: list[str] = []
        self.count = 0

    def _note(self, space: str, declared: Iterable[Any], parent: Any) -> None:
        for enum in parent.enum_type:
            self.types[f"{space}.{enum.name}"] = enum
        for message in declared:
            name = f"{space}.{message.name}"
            self.types[name] = message
            self._note(name, message.nested_type, message)

    def record(self, name: str, path: tuple[str, ...]) -> Record:
        """A message's fields, without those that hold nothing."""
        if name in self.inside:
            reason = f"the message {name[1:]} contains itself; no table's type can"
            raise SchemaUnusable(".".join(path), reason)
        self.inside.append(name)
        fields, depth = [], len(self.inside)
        for field in self.types[name].field:
            shape = asked_shape(self._field, field, (*path, field.name), self.listed)
            del self.inside[depth:]  # of one that was left out halfway
            if shape is not None:
                fields.append(Field(field.name, shape, number=field.number))
        self.inside.pop()
        return Record(tuple(fields), name=name[1:])

    def _field(self, field: Any, path: tuple[str, ...]) -> Shape | None:
        self.count += 1
        if self.count > MAX_FIELDS or len(path) > MAX_DEPTH:
            where = ".".join(path[:5])
            raise SchemaUnusable(where, f"more than {MAX_FIELDS} fields, or {MAX_DEPTH} levels")
        if field.label != Type.LABEL_REPEATED:
            return self._value(field, path)
        entry: Any = self.types.get(field.type_name)
        if field.type == Type.TYPE_MESSAGE and entry.options.map_entry:
            value = self._value(next(f for f in entry.field if f.number == 2), (*path, "{}"))
            return None if value is None else Map(value)
        item = self._value(field, (*path, "[]"))
        return None if item is None else List(item)

    def _value(self, field: Any, path: tuple[str, ...]) -> Shape | None:
        """The shape of one value; None for a message without fields."""
        if field.type == Type.TYPE_ENUM:
            symbols = (value.name for value in self.types[field.type_name].value)
            return Enum(tuple(symbols), name=field.type_name[1:])
        if field.type in KINDS:
            return Scalar(KINDS[field.type])
        if field.type_name in _WELL_KNOWN:
            return Scalar(_WELL_KNOWN[field.type_name])
        record = self.record(field.type_name, path)
        return record if record.fields else None


def protobuf_text(record: Record) -> str:
    """The reader of merged shapes, in JSON: message, and fields by number."""
    return json.dumps({"message": record.name, **_printed(record)})


def read_protobuf(text: str) -> Record:
    """The shape that `protobuf_text` wrote."""
    document = json.loads(text)
    return Record(_fields(document), name=document["message"])


def _printed(shape: Shape) -> dict[str, Any]:
    match shape:
        case Scalar(kind):
            return {"kind": kind}
        case Enum(symbols):
            return {"enum": list(symbols)}
        case List(item):
            return {"items": _printed(item)}
        case Map(value):
            return {"values": _printed(value)}
        case Record(fields):
            return {
                "fields": [
                    {"number": f.number, "name": f.name}
                    | ({"since": f.since} if f.since else {})
                    | _printed(f.shape)
                    for f in fields
                ]
            }
    raise AssertionError(f"no shape of Protobuf: {shape}")


def _read(document: Mapping[str, Any]) -> Shape:
    if "kind" in document:
        return Scalar(document["kind"])
    if "enum" in document:
        return Enum(tuple(document["enum"]))
    if "items" in document:
        return List(_read(document["items"]))
    if "values" in document:
        return Map(_read(document["values"]))
    return Record(_fields(document))


def _fields(document: Mapping[str, Any]) -> tuple[Field, ...]:
    return tuple(
        Field(f["name"], _read(f), since=f.get("since", ""), number=f["number"])
        for f in document["fields"]
    )
