"""The schemas that Kafka Connect's JSON converter writes beside each payload. Pure.

`{"type": "struct", "fields": [{"field": "id", "type": "int32", "optional": false}, ...]}`, as
`org.apache.kafka.connect.json.JsonConverter` writes it with `schemas.enable`; no JSON Schema. What
a payload holds is merged as JSON is, and kinds that only Connect has stand in the reader's JSON
Schema as `x-connect`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from tideline.decoding.schemas.semantics import ANY_SCALE, semantic_type
from tideline.decoding.schemas.shapes import Field, List, Map, Record, Scalar, Shape, asked_shape
from tideline.model.decoding import SchemaUnusable

MAX_DEPTH = 64
MAX_TYPES = 20_000
_SCALARS = {
    "int8": Scalar("integer"),
    "int16": Scalar("integer"),
    "int32": Scalar("integer"),
    "int64": Scalar("integer"),
    "float": Scalar("double"),
    "float32": Scalar("double"),
    "double": Scalar("double"),
    "float64": Scalar("double"),
    "boolean": Scalar("boolean"),
    "string": Scalar("string"),
    "bytes": Scalar("bytes"),
}
_AVRO = {"int32": "int", "int64": "long"}
"""What the same type is written as in Avro."""


def connect_shape(text: str, listed: Collection[str] | None = None) -> Record:
    """What the payloads of a schema hold.

    Args:
        text: The schema, as it stands in the records.
        listed: The paths of the fields that are asked for; None for all.

    Raises:
        SchemaUnusable: No columns can be made of it.
    """
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaUnusable("", f"it is not JSON: {error}") from error
    shape = _Reading(listed).shape(schema, ())
    if shape is None or isinstance(shape, Record):
        return shape or Record(())
    return Record((Field("value", shape),), wrapped=True)


def connect_may_be_null(text: str) -> bool:
    """Whether a whole payload may be null by its schema."""
    return json.loads(text).get("optional") is True


def connect_defaults(text: str, inside: Sequence[str]) -> dict[str, object]:
    """Defaults of the fields of a struct, as they are written; structs lead to that one."""
    fields = json.loads(text).get("fields") or ()
    for name in inside:
        fields = next((f.get("fields") or () for f in fields if f.get("field") == name), ())
    return {f["field"]: f["default"] for f in fields if f.get("default") is not None}


class _Reading:
    """One schema; types are counted, since whoever writes records decides what is in them."""

    def __init__(self, listed: Collection[str] | None) -> None:
        self.types = 0
        self.listed = listed

    def shape(self, schema: Any, path: tuple[str, ...]) -> Shape | None:
        """What a type holds; None for a struct without fields."""
        self.types += 1
        if self.types > MAX_TYPES or len(path) > MAX_DEPTH:
            where = ".".join(path[:5])
            raise SchemaUnusable(where, f"more than {MAX_TYPES} types, or {MAX_DEPTH} levels")
        kind = schema.get("type") if isinstance(schema, dict) else None
        if kind == "struct":
            return self._struct(schema, path)
        if kind == "array":
            item = self.shape(schema.get("items"), (*path, "[]"))
            return List(Scalar("text") if item is None else item)
        if kind == "map":
            return self._map(schema, path)
        if not isinstance(kind, str) or kind not in _SCALARS:
            raise SchemaUnusable(".".join(path), f"no type of Connect's: {json.dumps(kind)[:80]}")
        return _scalar(kind, schema)

    def _struct(self, schema: dict[str, Any], path: tuple[str, ...]) -> Shape | None:
        fields, names = [], set()
        for field in schema.get("fields") or ():
            name = field.get("field")
            if not isinstance(name, str) or name in names:
                wrong = f"no name of a field, or there twice: {json.dumps(name)[:80]}"
                raise SchemaUnusable(".".join(path), wrong)
            names.add(name)
            shape = asked_shape(self.shape, field, (*path, name), self.listed)
            fields += [Field(name, shape)] if shape is not None else []
        found = Record(tuple(fields)) if fields else None
        if schema.get("name") == ANY_SCALE and names == {"scale", "value"}:
            return Scalar("any-scale", written=found)
        return found

    def _map(self, schema: dict[str, Any], path: tuple[str, ...]) -> Shape:
        keys = self.shape(schema.get("keys"), (*path, "{}"))
        value = self.shape(schema.get("values"), (*path, "{}"))
        if keys != Scalar("string"):  # written as a list of pairs
            return Scalar("text")
        return Map(Scalar("text") if value is None else value)


def _scalar(kind: str, schema: dict[str, Any]) -> Scalar:
    written = _SCALARS[kind]
    name, parameters = schema.get("name"), schema.get("parameters")
    return semantic_type(_AVRO.get(kind, kind), name, parameters, written) or written
