"""A schema as it stands in the registry, and those that it refers to, made one. Pure.

Registries keep references beside a schema's text: a name as the text uses it, and the version of a
subject that it stands for. Decoders know nothing of them.

- Avro: types of other schemas are written out where a schema uses them first. Names follow the
  specification (Avro 1.12, "Names"): a name without a dot belongs to the enclosing namespace. Where
  that has no such type, the type without a namespace is meant, as in Java.
- JSON Schema: other documents are moved into `$defs`, so that every `$ref` stays in one document.
- Protobuf: imported files stay apart; protoc gets them by name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from tideline.model.decoding import WriterSchema

_NAMED = ("record", "error", "enum", "fixed")
_Definition = dict[str, Any]
_VALUES = ("const", "enum", "default", "examples")
"""What they hold is data, not schemas."""
_NAMED_SCHEMAS = ("properties", "patternProperties", "dependentSchemas", "definitions", "$defs")
"""What they hold are schemas by names, which may look like keywords."""


class Unresolvable(ValueError):
    """A schema and its references do not make one schema; the text says why."""


@dataclass(frozen=True, slots=True)
class Document:
    """A schema with those that it refers to.

    Args:
        format: `avro`, `json` or `protobuf`.
        text: In its own language.
        references: Those that it names, in its order, each by the name that it uses.
    """

    format: str
    text: str
    references: tuple[tuple[str, Document], ...] = ()


def resolved(document: Document, schema_id: int, known_as: str) -> WriterSchema:
    """The schema with everything that it refers to. Without references the text stays as it is.

    Args:
        known_as: `SUBJECT:VERSION`.

    Raises:
        Unresolvable: A text is no JSON, or is too deeply nested, or two imports have one name.
    """
    text = document.text
    imports: tuple[tuple[str, str], ...] = ()
    if document.references:
        if any(d.format != document.format for d in _below(document)):
            raise Unresolvable("a schema of another format is referred to")
        try:
            if document.format == "protobuf":
                imports = _imports(document)
            elif document.format == "avro":
                others = [d.text for d in _below(document)]
                text = with_types_written_out(text, others)
            else:
                text = with_documents_in_defs(document)
        except Unresolvable:  # a ValueError, too
            raise
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise Unresolvable(f"{type(error).__name__}: {error}") from error
    digest = hashlib.sha256(text.encode()).hexdigest()
    return WriterSchema(schema_id, text, digest, known_as, imports, document.format)


def _below(document: Document) -> list[Document]:
    """What a schema refers to, all levels, each once; ways to one may double with every level.

    Of several places in depth-first order the last one counts: later definitions of a type win.
    """
    found: dict[int, Document] = {}

    def visit(above: Document) -> None:
        for _, other in reversed(above.references):
            if id(other) not in found:
                visit(other)
                found[id(other)] = other

    visit(document)
    return [*reversed(found.values())]


def _imports(document: Document) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    waiting, seen = [document], {id(document)}
    while waiting:
        for name, other in waiting.pop(0).references:
            if found.setdefault(name, other.text) != other.text:
                raise Unresolvable(f"two different files are imported as {name}")
            if id(other) not in seen:
                seen.add(id(other))
                waiting.append(other)
    return tuple(found.items())


def with_types_written_out(text: str, others: Iterable[str]) -> str:
    """The schema with definitions in the place of names that only other schemas define.

    Args:
        text: The schema, in JSON.
        others: Schemas that it refers to, and those that these refer to.
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


def with_documents_in_defs(document: Document) -> str:
    """The schema with those that it refers to, each under its name in `$defs`."""
    root = json.loads(document.text)
    if not isinstance(root, dict):
        return document.text
    bundle = _Bundle({**root.get("$defs", {})})
    whole = bundle.moved(document, root, "#")
    text = {**whole, "$defs": {**whole.get("$defs", {}), **bundle.added}}
    return json.dumps(text, separators=(",", ":"), ensure_ascii=False)


class _Bundle:
    """Collects documents.

    Args:
        taken: Names in `$defs` that the schema itself uses.
    """

    def __init__(self, taken: Mapping[str, Any]) -> None:
        self._taken = taken
        self.added: dict[str, Any] = {}
        self._places: dict[tuple[str, str], str] = {}

    def moved(self, document: Document, schema: Any, place: str) -> Any:
        """A document's schema, with its own and its foreign `$ref`s for where it is now."""
        base = schema.get("$id", "") if isinstance(schema, dict) else ""
        others = {
            urljoin(base, name): self._place_of(name, other) for name, other in document.references
        }
        return _repointed(schema, base, place, others)

    def _place_of(self, name: str, document: Document) -> str:
        known = self._places.get((name, document.text))
        if known is not None:
            return known
        key = re.sub(r"[^A-Za-z0-9._-]", "_", name)  # nothing that a JSON pointer would escape
        while key in self._taken or key in self.added:
            key += "_"
        place = f"#/$defs/{key}"
        self._places[name, document.text] = place
        self.added[key] = None  # holds the name while the document's own references are moved
        schema = self.moved(document, json.loads(document.text), place)
        if isinstance(schema, dict):  # an $id would give the $refs inside another base
            schema = {k: v for k, v in schema.items() if k not in ("$id", "$schema")}
        self.added[key] = schema
        return place


def _repointed(
    schema: Any, base: str, place: str, others: Mapping[str, str], *, by_name: bool = False
) -> Any:
    """A schema, or schemas by name, with every `$ref` for where it is now."""
    if isinstance(schema, list):
        return [_repointed(item, base, place, others) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if by_name:
        return {k: _repointed(v, base, place, others) for k, v in schema.items()}
    changed = {
        key: value
        if key in _VALUES
        else _repointed(value, base, place, others, by_name=key in _NAMED_SCHEMAS)
        for key, value in schema.items()
    }
    target = schema.get("$ref")
    if isinstance(target, str):
        changed["$ref"] = _pointed(target, base, place, others)
    return changed


def _pointed(target: str, base: str, place: str, others: Mapping[str, str]) -> str:
    address, _, pointer = target.partition("#")
    whole = urljoin(base, address)
    if whole in others:
        home = others[whole]
    elif not address or whole == base:
        home = place
    else:
        return target
    if pointer and not pointer.startswith("/"):
        return f"#{pointer}"  # an anchor: its name holds in the whole document
    return f"{home}{pointer}"
