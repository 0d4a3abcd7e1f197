"""Types of other Avro schemas, written out where a schema uses them first.

Names follow the specification (Avro 1.12, "Names"): a name without a dot belongs to the enclosing
namespace. Where that has no such type, the type without a namespace is meant, as in Java.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

_NAMED = ("record", "error", "enum", "fixed")
_Definition = dict[str, Any]


def with_types_written_out(text: str, others: Iterable[str]) -> str:
    """The schema with definitions in the place of names that only other schemas define.

    Args:
        text: The schema, in JSON.
        others: Schemas that it refers to, and those that these refer to.

    Raises:
        ValueError: A text is no JSON.
        RecursionError: It is too deeply nested.
    """
    schema = json.loads(text)
    foreign = {name: d for other in others for name, d in _definitions(json.loads(other), "")}
    own = {name for name, _ in _definitions(schema, "")}
    writer = _Writer({n: d for n, d in foreign.items() if n not in own}, own)
    return json.dumps(writer.written(schema, ""), separators=(",", ":"), ensure_ascii=False)


def _definitions(schema: Any, namespace: str) -> Iterator[tuple[str, _Definition]]:
    """Every named type in a schema, with its full name and its namespace said."""
    if isinstance(schema, list):
        for branch in schema:
            yield from _definitions(branch, namespace)
    if not isinstance(schema, dict):
        return
    if schema.get("type") in _NAMED:
        space, name = _place(schema, namespace)
        namespace = space
        yield _full(space, name), {**schema, "name": name, "namespace": space}
        for field in schema.get("fields", ()):
            yield from _definitions(field["type"], namespace)
        return
    for key in ("type", "items", "values"):
        if key in schema:
            yield from _definitions(schema[key], namespace)


def _place(definition: _Definition, enclosing: str) -> tuple[str, str]:
    """Namespace and simple name of a named type."""
    space, dot, name = str(definition["name"]).rpartition(".")
    if dot:
        return space, name
    return definition.get("namespace", enclosing) or "", name


def _full(space: str, name: str) -> str:
    return f"{space}.{name}" if space else name


class _Writer:
    """Writes a schema once.

    Args:
        foreign: Definitions of other schemas by full name.
        own: Names that the schema itself defines.
    """

    def __init__(self, foreign: dict[str, _Definition], own: set[str]) -> None:
        self._foreign = foreign
        self._own = own
        self._done: set[str] = set()

    def written(self, schema: Any, namespace: str) -> Any:
        """The schema in a namespace, with every foreign type defined once."""
        if isinstance(schema, str):
            return self._name(schema, namespace)
        if isinstance(schema, list):
            return [self.written(branch, namespace) for branch in schema]
        if not isinstance(schema, dict):
            return schema
        if schema.get("type") in _NAMED:
            space, name = _place(schema, namespace)
            full = _full(space, name)
            if full in self._done:  # written out already, where it was used before
                return full
            if full in self._foreign:
                return self._define(full)
            return self._inside(schema, space)
        if isinstance(schema.get("type"), str):
            named = self._name(schema["type"], namespace)
            if isinstance(named, dict):  # {"type": "ns.Name"} stands for the type itself
                return named
        changed = {
            key: self.written(schema[key], namespace)
            for key in ("type", "items", "values")
            if key in schema
        }
        return {**schema, **changed}

    def _name(self, name: str, namespace: str) -> Any:
        candidates = [name] if "." in name else [_full(namespace, name), name]
        for full in candidates:
            if full in self._own or full in self._done:
                return name
            if full in self._foreign:
                return self._define(full)
        return name

    def _define(self, full: str) -> _Definition:
        self._done.add(full)
        definition = self._foreign[full]
        return self._inside(definition, definition["namespace"])

    def _inside(self, definition: _Definition, namespace: str) -> _Definition:
        if "fields" not in definition:
            return definition
        fields = [{**f, "type": self.written(f["type"], namespace)} for f in definition["fields"]]
        return {**definition, "fields": fields}
