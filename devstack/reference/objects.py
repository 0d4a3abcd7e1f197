"""A JSON object's keys and their types, from its JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from devstack.reference.markdown import code, codes, one_line, table

Schema = dict[str, Any]
_NAMES = {"integer": "whole number", "boolean": "true or false"}


def keys_of(schema: Schema) -> Iterator[str]:
    """What an object means, and a table of its keys in the order in which they are printed."""
    said = (one_line(part) for part in schema["description"].split("\n\n"))
    for paragraph in said:
        yield from (paragraph, "")
    properties = schema["properties"]
    rows = ((code(key), type_of(properties[key])) for key in schema["required"])
    yield from table(("key", "type"), rows)


def type_of(value: Schema) -> str:
    """A type in words, with links to other objects."""
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in value:
        return " or ".join(type_of(form) for form in value["anyOf"])
    if "enum" in value:
        return codes(value["enum"])
    if "const" in value:
        return code(json.dumps(value["const"]))
    if "prefixItems" in value:
        return "list of " + ", ".join(type_of(item) for item in value["prefixItems"])
    if value["type"] == "array":
        return f"list of {type_of(value['items'])}" if "items" in value else "empty list"
    if value["type"] == "object":
        of = value["additionalProperties"]
        return "any object" if of is True else f"{{name: {type_of(of)}}}"
    return _scalar(value)


def _scalar(value: Schema) -> str:
    if value.get("format") == "date-time":
        return "time"
    return _NAMES.get(value["type"], str(value["type"]))
