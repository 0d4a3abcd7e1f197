"""JSON Schema: what a document's fields hold, and the schema of merged shapes. Pure.

Only what makes columns is read: types, properties, items, formats, combinations, references inside
the document. A schema that allows several types, says nothing, or contains itself makes a string
column with the value's JSON text (a JSON string stands there without its quotes). `required`,
patterns, bounds and other checks of values make no column, and are not checked.

Where several schemas describe one value, `ANY` stands for one that says nothing, None for one that
allows nothing but null.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urljoin

from tideline.decoding.schemas.shapes import Field, List, Map, Record, Scalar, Shape, asked_shape
from tideline.model.decoding import SchemaUnusable

Found = Shape | None
TEXT = Scalar("text")
ANY = Scalar("any")
_STRINGS = {Scalar("string"), Scalar("date-time"), Scalar("day")}
_NUMBERS = {Scalar("integer"), Scalar("number")}


def all_of(found: Iterable[Found]) -> Found:
    """The shape of values that satisfy all the schemas."""
    given = [f for f in found if f is not ANY]
    narrow = [f for f in given if f != TEXT] or given[:1]
    if not narrow:
        return ANY
    first, *others = narrow
    for other in others:
        if isinstance(first, Record) and isinstance(other, Record):
            first = _merged(first, other, all_of)
        elif {first, other} <= _NUMBERS:
            first = first if first == other else Scalar("integer")
        elif {first, other} <= _STRINGS:
            first = other if first == Scalar("string") else first
        elif first != other:
            return TEXT
    return first


def any_of(found: Sequence[Found]) -> Found:
    """The shape of values that satisfy one of the schemas; `ANY` for no schemas."""
    given = [f for f in found if f is not None]
    if not given:
        return None if found else ANY
    if any(f is ANY for f in given):
        records = [f for f in given if isinstance(f, Record)]
        return (
            ANY if not records or len(records) + given.count(ANY) < len(given) else any_of(records)
        )
    first, *others = given
    for other in others:
        if isinstance(first, Record) and isinstance(other, Record):
            first = _merged(first, other, any_of)
        elif {first, other} <= _NUMBERS:
            first = first if first == other else Scalar("number")
        elif {first, other} <= _STRINGS:
            first = first if first == other else Scalar("string")
        elif first != other:
            return TEXT
    return first


def of_values(values: Iterable[Any]) -> Found:
    """The shape of listed values."""
    return any_of([_of_value(v) for v in values])


def _of_value(value: Any) -> Found:
    match value:
        case None:
            return None
        case bool():
            return Scalar("boolean")
        case int():
            return Scalar("integer")
        case float():
            return Scalar("number")
        case str():
            return Scalar("string")
    return TEXT


def _merged(first: Record, other: Record, combined: Callable[[list[Found]], Found]) -> Record:
    """The fields of both records; those of both as the schemas are combined."""
    theirs = {f.name: f for f in other.fields}
    fields: list[Field] = []
    for field in first.fields:
        twin = theirs.pop(field.name, None)
        shape = combined([field.shape, twin.shape]) if twin else field.shape
        fields.append(replace(field, shape=TEXT if shape is None or shape is ANY else shape))
    return Record((*fields, *theirs.values()), first.closed and other.closed)


MAX_SCHEMAS = 20_000
MAX_DEPTH = 64
_VARIANT = "x-variant"
SCHEMALESS = json.dumps({_VARIANT: True})
"""Stands for a schema where there is none: any document, as it is, in one VARIANT column."""
_FORMATS = {"date-time": Scalar("date-time"), "date": Scalar("day")}
_SCALARS = {k: Scalar(k) for k in ("integer", "number", "boolean")}
_CONNECT = "x-connect"
CONNECT = {
    "bytes": "string",
    "decimal": "string",
    "any-scale": "object",
    "zoned": "string",
    "double": "number",
    "date": "integer",
    "timestamp-millis": "integer",
    "ntz-millis": "integer",
    "ntz-micros": "integer",
}
"""Kinds that Kafka Connect's JSON has, and no JSON Schema -> the type that they are written as."""


def json_shape(text: str, listed: Collection[str] | None = None) -> Record:
    """What the documents of a JSON Schema hold.

    Args:
        text: The schema. It is read as itself where it is a reader's text, too.
        listed: The paths of the fields that are asked for; None for all.

    Raises:
        SchemaUnusable: No columns can be made of it.
    """
    if text == SCHEMALESS:
        return Record((Field("value", Scalar("variant")),), wrapped=True)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaUnusable("", f"it is not JSON: {error}") from error
    if not isinstance(document, dict | bool):
        raise SchemaUnusable("", f"it is no JSON Schema: {text[:80]}")
    shape = _Reading(document, listed).shape(document, ())
    if isinstance(shape, Record):
        return shape
    if shape is None:
        return Record((), closed=True)
    if _attribute(document, "type") == "object" and not isinstance(shape, Map):
        return Record((), closed=_attribute(document, "additionalProperties") is False)
    return Record((Field("value", TEXT if shape is ANY else shape),), wrapped=True)


def json_takes_points(text: str) -> bool:
    """Whether 1.0 is an integer: since draft 6 of JSON Schema, and where no draft is named.

    Args:
        text: A schema of which `json_shape` has made columns.
    """
    return not _is_old(json.loads(text))


def json_may_be_null(text: str) -> bool:
    """Whether a whole document may be `null`: the schema says so, or says nothing of documents.

    Args:
        text: A schema of which `json_shape` has made columns.
    """
    if text == SCHEMALESS:
        return False  # null is a value of VARIANT's
    document = json.loads(text)
    allows = _Reading(document).allows_null(document)
    return _Reading(document).shape(document, ()) is ANY if allows is None else allows


def read_json(text: str) -> Record:
    """The shape that `json_text` wrote."""
    document = json.loads(text)
    fields = []
    for name, schema in document["properties"].items():
        is_variant = schema.get(_VARIANT) is True
        shape = Scalar("variant") if is_variant else _Reading(schema).shape(schema, (name,))
        found = TEXT if shape is ANY or shape is None else shape
        if isinstance(found, Scalar):
            found = replace(found, kept=schema.get("x-kept", False))
        fields.append(Field(name, found, since=schema.get("x-since", "")))
    closed = document.get("additionalProperties") is False
    return Record(tuple(fields), closed, document.get("x-wrapped", False))


def json_text(record: Record) -> str:
    """The schema of merged shapes.

    `x-since` says which schema brought a field, `x-kept` that its column is of before the schemas'
    better type, `x-connect` a kind of Connect's, `x-wrapped` that the documents are no objects, and
    stand for the value of the only property.
    """
    made = _printed(record)
    return json.dumps(made | ({"x-wrapped": True} if record.wrapped else {}))


def _printed(shape: Shape) -> dict[str, Any]:
    match shape:
        case Scalar("text"):
            return {}
        case Scalar("variant"):
            return {_VARIANT: True}
        case Scalar(kind, scale) if kind in CONNECT:
            return {"type": CONNECT[kind], _CONNECT: kind} | ({"scale": scale} if scale else {})
        case Scalar("date-time"):
            return {"type": "string", "format": "date-time"}
        case Scalar("day"):
            return {"type": "string", "format": "date"}
        case Scalar(kind):
            return {"type": kind}
        case List(item):
            return {"type": "array", "items": _printed(item)}
        case Map(value):
            return {"type": "object", "additionalProperties": _printed(value)}
        case Record(fields, closed):
            properties = {f.name: _printed(f.shape) | _noted(f) for f in fields}
            made: dict[str, Any] = {"type": "object", "properties": properties}
            return made | ({"additionalProperties": False} if closed else {})
    raise AssertionError(f"no shape of JSON: {shape}")


def _noted(field: Field) -> dict[str, Any]:
    """What the reader remembers of a field."""
    kept = isinstance(field.shape, Scalar) and field.shape.kept
    since = {"x-since": field.since} if field.since else {}
    return since | ({"x-kept": True} if kept else {})


class _Reading:
    """One document, and the references that are being followed."""

    def __init__(self, document: Any, listed: Collection[str] | None = None) -> None:
        self.document = document
        self.listed = listed
        self.following: list[str] = []
        self.count = 0

    def shape(self, schema: Any, path: tuple[str, ...]) -> Found:
        self.count += 1
        if self.count > MAX_SCHEMAS or len(path) > MAX_DEPTH:
            where = ".".join(path[:5])
            raise SchemaUnusable(where, f"more than {MAX_SCHEMAS} schemas, or {MAX_DEPTH} levels")
        if schema is False:
            return None
        if not isinstance(schema, dict):
            return ANY
        parts = [self._own(schema, path)]
        if "$ref" in schema:
            parts.append(self._referred(schema, path))
        parts += [self.shape(s, path) for s in _list(schema, "allOf")]
        for keyword in ("anyOf", "oneOf"):
            parts.append(any_of([self.shape(s, path) for s in _list(schema, keyword)]))
        branches = [schema[k] for k in ("then", "else") if k in schema]
        extra = any_of([self.shape(s, path) for s in branches])
        parts += [extra] if isinstance(extra, Record) else []
        return all_of(parts)

    def _own(self, schema: dict[str, Any], path: tuple[str, ...]) -> Found:
        """What a schema says without references and combinations."""
        types = schema.get("type")
        connect = schema.get(_CONNECT)
        if isinstance(connect, str) and connect in CONNECT:
            return Scalar(connect, schema.get("scale", 0 if connect == "decimal" else None))
        if types is None:
            return self._implied(schema, path)
        names = types if isinstance(types, list) else [types]
        return any_of([self._typed(str(n), schema, path) for n in names])

    def _implied(self, schema: dict[str, Any], path: tuple[str, ...]) -> Found:
        if "properties" in schema:
            return self._typed("object", schema, path)
        if "items" in schema or "prefixItems" in schema:
            return self._typed("array", schema, path)
        values = [schema["const"]] if "const" in schema else _list(schema, "enum")
        if values:
            return of_values(values)
        return _format(schema) or ANY

    def _typed(self, name: str, schema: dict[str, Any], path: tuple[str, ...]) -> Found:
        if name == "null":
            return None
        if name in _SCALARS:
            return _SCALARS[name]
        if name == "string":
            return _format(schema) or Scalar("string")
        if name == "array":
            items = schema.get("items", True)
            tuples = isinstance(items, list) or "prefixItems" in schema
            return List(_kept(ANY if tuples else self.shape(items, (*path, "[]"))))
        if name != "object":
            raise SchemaUnusable(".".join(path), f"no type of JSON Schema: {name}")
        return self._object(schema, path)

    def _object(self, schema: dict[str, Any], path: tuple[str, ...]) -> Found:
        properties = schema.get("properties") or {}
        if not isinstance(properties, dict):
            raise SchemaUnusable(".".join(path), "properties is no object")
        fields = []
        for name, inner in properties.items():
            shape = asked_shape(self.shape, inner, (*path, name), self.listed)
            if shape is not None:
                found = TEXT if shape is ANY else shape
                since = str(inner.get("x-since", "")) if isinstance(inner, dict) else ""
                fields.append(Field(name, found, since=since))
        others = schema.get("additionalProperties", True)
        if fields:
            return Record(tuple(fields), closed=others is False)
        if isinstance(others, dict):
            return Map(_kept(self.shape(others, (*path, "{}"))))
        return ANY

    def allows_null(self, schema: Any) -> bool | None:
        """Whether a schema says that a value may be null; None where it does not speak of it."""
        if not isinstance(schema, dict):
            return False if schema is False else None
        answers: list[bool | None] = []
        if "type" in schema:
            types = schema["type"]
            answers.append("null" in (types if isinstance(types, list) else [types]))
        if "const" in schema:
            answers.append(schema["const"] is None)
        if values := _list(schema, "enum"):
            answers.append(None in values)
        if "$ref" in schema:
            answers.append(self._followed(schema, (), lambda s, _: self.allows_null(s), None))
        answers += map(self.allows_null, _list(schema, "allOf"))
        for keyword in ("anyOf", "oneOf"):
            if some := [self.allows_null(one) for one in _list(schema, keyword)]:
                answers.append(True if True in some else None if None in some else False)
        return False if False in answers else True if True in answers else None

    def _referred(self, schema: dict[str, Any], path: tuple[str, ...]) -> Found:
        found: Found = self._followed(schema, path, self.shape, TEXT)
        return found

    def _followed(
        self,
        schema: dict[str, Any],
        path: tuple[str, ...],
        asked: Callable[[Any, tuple[str, ...]], Any],
        circle: Any,
    ) -> Any:
        """What is asked of a reference's target; `circle` where that is being asked already."""
        ref = _joined(self._addresses.bases.get(id(schema), ""), str(schema["$ref"]))
        if ref in self.following:
            return circle
        self.following.append(ref)
        try:
            return asked(self._target(ref, str(schema["$ref"]), path), path)
        finally:
            self.following.pop()

    def _target(self, ref: str, given: str, path: tuple[str, ...]) -> Any:
        """What a reference leads to: a place, an anchor, or a schema kept inside the document.

        Args:
            ref: With the base of its schema (RFC 3986, section 5).
            given: As it stands there; a schema is also found by its key in `$defs`.
        """
        base, _, place = ref.partition("#")
        places = [self._addresses.schemas.get(base), self._kept.get(given.partition("#")[0])]
        places += [self.document] if given.startswith("#") else []  # as many schemas mean it
        leads = (self._inside(whole, place, ref) for whole in places)
        found = next((schema for schema in leads if schema is not None), None)
        if found is None:
            raise SchemaUnusable(".".join(path), f"$ref {given} leads out of the document")
        return found

    def _inside(self, found: Any, place: str, ref: str) -> Any:
        """What a fragment leads to; None if that is not there."""
        if place and not place.startswith("/"):
            return self._addresses.schemas.get(ref)
        for step in place.split("/")[1:] if place.startswith("/") else ():
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            else:
                found = found.get(step) if isinstance(found, dict) else None
        return found

    @property
    def _kept(self) -> dict[str, Any]:
        """Schemas that are kept inside the document, by key."""
        return _by_name(self.document, "definitions") | _by_name(self.document, "$defs")

    @cached_property
    def _addresses(self) -> _Addresses:
        return _Addresses(self.document)


class _Addresses:
    """The URI of each schema inside a document that has one, and the base of every schema.

    `$id`, and `id` of the drafts 3 and 4, give a schema a URI, relative to that of the schema
    around it. Anchors are `$anchor`, and an id that is only a fragment.

    Args:
        document: The whole schema.
    """

    def __init__(self, document: Any) -> None:
        self.bases: dict[int, str] = {}
        self.schemas: dict[str, Any] = {"": document}
        self._id = "id" if _is_old(document) else "$id"
        self._look(document, "")

    def _look(self, schema: Any, base: str) -> None:
        if isinstance(schema, list):
            for item in schema:
                self._look(item, base)
        if not isinstance(schema, dict):
            return
        given = schema.get(self._id)
        if isinstance(given, str):
            own = _joined(base, given)
            self.schemas.setdefault(own, schema)
            base = base if given.startswith("#") else own.partition("#")[0]
            self.schemas.setdefault(base, schema)
        if isinstance(anchor := schema.get("$anchor"), str):
            self.schemas.setdefault(f"{base}#{anchor}", schema)
        self.bases[id(schema)] = base
        for key, value in schema.items():
            if key in _BY_NAME and isinstance(value, dict):
                for inner in value.values():  # the names may look like keywords
                    self._look(inner, base)
            elif key not in _DATA:
                self._look(value, base)


def _is_old(document: Any) -> bool:
    """Whether a schema is of the drafts 3 or 4."""
    named = str(_attribute(document, "$schema") or "")
    return re.search(r"/draft-0[34]/", named) is not None


_DATA = ("const", "enum", "default", "examples")
"""What they hold is data, not schemas."""
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "definitions", "$defs")
"""What they hold are schemas by names."""


def _joined(base: str, ref: str) -> str:
    """A reference with its base; a fragment is of any base, also of one that is no path."""
    return base + ref if ref.startswith("#") else urljoin(base, ref)


def _kept(found: Found) -> Shape:
    """An item's or a value's shape: what is always null may as well be anything."""
    return TEXT if found is ANY or found is None else found


def _format(schema: dict[str, Any]) -> Scalar | None:
    name = schema.get("format")
    return _FORMATS.get(name) if isinstance(name, str) else None


def _by_name(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    value = schema.get(keyword)
    return value if isinstance(value, dict) else {}


def _list(schema: dict[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _attribute(schema: Any, name: str) -> Any:
    return schema.get(name) if isinstance(schema, dict) else None
