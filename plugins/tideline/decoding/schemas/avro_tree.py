"""An Avro schema with every named type written out where it is used. Pure.

A node is a dict: `type` is a primitive type, or `record` (`name`, `fields`), `enum` (`name`,
`symbols`), `fixed` (`name`, `size`), `array` (`items`), `map` (`values`), `union` (`branches`).
Names are full ones. A field is a dict of `name`, `aliases`, `type` (a node) and `since`.
Other attributes of a type are kept: `logicalType`, `precision`, `scale`, ours.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from tideline.model.decoding import SchemaUnusable

Node = dict[str, Any]

PRIMITIVES = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string"),
)
MAX_NODES = 20_000
MAX_DEPTH = 64
_LARGEST_FIXED = 2**31 - 1


def avro_tree(text: str) -> Node:
    """The tree of a schema.

    Args:
        text: Avro's JSON, references inlined.

    Raises:
        SchemaUnusable: It is no Avro schema, a record contains itself, or it is too large.
    """
    try:
        schema = text.strip() if text.strip() in PRIMITIVES else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SchemaUnusable("", f"it is not JSON: {error}") from error
    return _Expander().node(schema, "", ())


class _Expander:
    """Writes named types out, wherever they are referred to."""

    def __init__(self) -> None:
        self.named: dict[str, tuple[Node, str]] = {}
        self.inside: list[str] = []
        self.nodes = 0

    def node(self, schema: Any, space: str, path: tuple[str, ...]) -> Node:
        self.nodes += 1
        if self.nodes > MAX_NODES or len(path) > MAX_DEPTH:
            raise SchemaUnusable(
                ".".join(path[:5]), f"more than {MAX_NODES} types, or {MAX_DEPTH} levels"
            )
        if isinstance(schema, str):
            return self._by_name(schema, space, path)
        if isinstance(schema, list):
            return {"type": "union", "branches": [self.node(s, space, path) for s in schema]}
        if not isinstance(schema, dict) or "type" not in schema:
            raise _wrong(path, f"no Avro type: {_quoted(schema)}")
        kind = schema["type"]
        if isinstance(kind, dict | list):
            return self.node(kind, space, path)
        if kind == "array":
            return {"type": kind, "items": self.node(schema.get("items"), space, (*path, "[]"))}
        if kind == "map":
            return {"type": kind, "values": self.node(schema.get("values"), space, (*path, "{}"))}
        if kind in ("record", "error", "enum", "fixed"):
            return self._definition(schema, space, path)
        if kind in PRIMITIVES:
            return dict(schema)
        return self._by_name(kind, space, path)

    def _by_name(self, name: Any, space: str, path: tuple[str, ...]) -> Node:
        if not isinstance(name, str):
            raise _wrong(path, f"no Avro type: {_quoted(name)}")
        if name in PRIMITIVES:
            return {"type": name}
        full = name if "." in name or not space else f"{space}.{name}"
        full = full if full in self.named else name
        if full not in self.named:
            raise _wrong(path, f"the type {name} is not defined")
        schema, defined_in = self.named[full]
        return self._named(schema, full, defined_in, path)

    def _definition(self, schema: Node, space: str, path: tuple[str, ...]) -> Node:
        name = schema.get("name")
        if not isinstance(name, str) or not _are_names(name.split(".")):
            raise _wrong(path, f"no name for a type: {_quoted(name)}")
        space = schema.get("namespace", space) or ""
        if not isinstance(space, str):
            raise _wrong(path, f"no namespace: {_quoted(space)}")
        full = name if "." in name or not space else f"{space}.{name}"
        if self.named.get(full, (schema,))[0] is not schema:  # it is met again with its record
            raise _wrong(path, f"the type {full} is defined twice")
        self.named[full] = (schema, space)
        return self._named(schema, full, space, path)

    def _named(self, schema: Node, full: str, space: str, path: tuple[str, ...]) -> Node:
        space = full.rpartition(".")[0] or space
        kept = {k: v for k, v in schema.items() if k not in ("namespace", "doc", "aliases")}
        if schema["type"] == "enum":
            symbols = schema.get("symbols")
            if symbols is None or not _are_names(symbols) or len(set(symbols)) < len(symbols):
                raise _wrong(path, f"the enum {full} has no symbols that are names, each once")
            return {**kept, "name": full}
        if schema["type"] == "fixed":
            size = schema.get("size")
            if type(size) is not int or not 0 <= size <= _LARGEST_FIXED:
                raise _wrong(path, f"the fixed type {full} has no size")
            return {**kept, "name": full}
        if full in self.inside:
            raise _wrong(path, f"the record {full} contains itself; no table's type can")
        self.inside.append(full)
        declared = schema.get("fields") or []
        if not isinstance(declared, list):
            raise _wrong(path, f"the record {full} has no list of fields")
        fields = [self._field(field, space, path) for field in declared]
        self.inside.pop()
        if len({f["name"] for f in fields}) < len(fields):
            raise _wrong(path, f"the record {full} has two fields of one name")
        return {**kept, "type": "record", "name": full, "fields": fields}

    def _field(self, field: Any, space: str, path: tuple[str, ...]) -> Node:
        name = field.get("name") if isinstance(field, dict) else None
        if name is None or not _is_name(name) or "type" not in field:
            raise _wrong(path, f"no field: {_quoted(field)}")
        aliases = field.get("aliases") or field.get("also") or []
        if not isinstance(aliases, list) or not all(isinstance(a, str) for a in aliases):
            raise _wrong((*path, name), f"no other names: {_quoted(aliases)}")
        return {
            "name": name,
            "aliases": tuple(aliases),
            "since": str(field.get("since", "")),
            "default": field.get("was", field.get("default")),
            "type": self.node(field["type"], space, (*path, name)),
        }


def _are_names(given: Any) -> bool:
    """Whether all of a list are names, as Avro's Java library takes them: letters of any script."""
    return isinstance(given, list) and all(map(_is_name, given))


def _is_name(given: Any) -> bool:
    if not isinstance(given, str) or not given:
        return False
    letters = [(unicodedata.category(c)[0] == "L" and c <= "\uffff") or c == "_" for c in given]
    digits = (unicodedata.category(c) == "Nd" and c <= "\uffff" for c in given)
    return letters[0] and all(map(any, zip(letters, digits, strict=True)))


def _quoted(given: Any) -> str:
    return json.dumps(given)[:80]


def _wrong(path: tuple[str, ...], reason: str) -> SchemaUnusable:
    return SchemaUnusable(".".join(path), reason)
