"""The page about JSON, from the schema of the contract."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from devstack.reference.markdown import code, codes, one_line, page, table
from tideline.contract.schema import COMMANDS, OTHERS, output_schema
from tideline.contract.shapes import Shape

_Json = dict[str, Any]
_NAMES = {"integer": "whole number", "boolean": "true or false", "null": "null"}
_FAILURES = ("Failure", "RefusedFiles")


def build_page() -> str:
    """The text of docs/reference/json.md."""
    named: dict[str, _Json] = json.loads(output_schema())["$defs"]
    kinds = {**COMMANDS, **OTHERS}
    tops = {shape.__name__ for shapes in kinds.values() for shape in shapes} | {*_FAILURES}
    parts = [name for name, shape in named.items() if "properties" in shape and name not in tops]
    lines = [
        "`--output json`, or `--json`, prints one object on standard output. Its JSON Schema is",
        "[`output.schema.json`](../output.schema.json). Later versions may add keys. Offsets are",
        "half-open: `end_offset` is the first one that does not belong to the range.",
        "",
        "## A command that fails",
        "",
        *(line for name in _FAILURES for line in _shape(named[name])),
    ]
    for name, shapes in COMMANDS.items():
        lines += [f"## tideline {name}", "", *_answers(shapes, named)]
    for name, shapes in OTHERS.items():
        lines += [f"## {name}", "", *_answers(shapes, named)]
    for name in parts:
        lines += [f"## {name}", "", *_shape(named[name])]
    return page("JSON", "the models in `contract/`", *lines)


def _answers(shapes: tuple[type[Shape], ...], named: dict[str, _Json]) -> Iterator[str]:
    for shape in shapes:
        yield from _shape(named[shape.__name__])


def _shape(schema: _Json) -> Iterator[str]:
    """What an object means, and a table of its keys in the order in which they are printed."""
    said = (one_line(part) for part in schema["description"].split("\n\n"))
    for paragraph in said:
        yield from (paragraph, "")
    properties = schema["properties"]
    rows = ((code(key), _type(properties[key])) for key in schema["required"])
    yield from table(("key", "type"), rows)


def _type(value: _Json) -> str:
    """A type in words, with links to other objects."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(_type(form) for form in value["anyOf"])
    if "enum" in value:
        return codes(value["enum"])
    if "const" in value:
        return code(json.dumps(value["const"]))
    if "prefixItems" in value:
        return "list of " + ", ".join(_type(item) for item in value["prefixItems"])
    if value["type"] == "array":
        return f"list of {_type(value['items'])}" if "items" in value else "empty list"
    if value["type"] == "object":
        return f"{{name: {_type(value['additionalProperties'])}}}"
    return _scalar(value)


def _scalar(value: _Json) -> str:
    if value.get("format") == "date-time":
        return "time"
    return _NAMES.get(value["type"], str(value["type"]))
