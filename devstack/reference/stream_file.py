"""The page about the stream file's keys, from the JSON Schema of the models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from devstack.reference.markdown import code, codes, one_line, page, table
from tideline.model.incident import class_entry
from tideline.model.verdicts import VERDICTS
from tideline.stream.stream import Stream

_NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true, false"}
_Json = dict[str, Any]


def build_page() -> str:
    """The text of docs/reference/stream-file.md."""
    schema = Stream.model_json_schema()
    lines = [
        "The form for editors is [`stream.schema.json`](../stream.schema.json). Unknown keys are",
        "refused. More about some keys, and what the connections hold, is in the",
        "[reference](../reference.md#stream-file).",
        "",
        *_Sections(schema["$defs"]).lines("The file", schema, ""),
    ]
    return page("Stream file", "`stream/stream.py`", *lines)


class _Sections:
    """A heading and a table for each object in a stream file.

    Args:
        names: What a JSON Schema refers to.
    """

    def __init__(self, names: _Json) -> None:
        self._names = names
        self._told: dict[str, str] = {}

    def lines(self, title: str, schema: _Json, path: str) -> Iterator[str]:
        """The object at a path, which ends in a dot, and those in it."""
        required = schema.get("required", ())
        known = {key: self._resolved(value) for key, value in schema["properties"].items()}
        yield from (f"## {title}", "")
        if path:
            yield from (one_line(schema["description"]), "")
        yield from table(
            ("key", "default", "allowed", "meaning"),
            (
                (
                    code(f"{path}{key}"),
                    "required" if key in required else _default(value),
                    self._allowed(value),
                    _meaning(key, value),
                )
                for key, value in known.items()
            ),
        )
        for key, value in known.items():
            for part in self._objects(value):
                name = f"{path}{key}"
                if part["title"] in self._told:
                    yield from (f"## {name}", "", f"The keys of `{self._told[part['title']]}`.", "")
                    continue
                self._told[part["title"]] = name
                yield from self.lines(name, part, f"{name}.")

    def _resolved(self, value: _Json) -> _Json:
        """A property with what it refers to; its own words go first."""
        forms = [form for form in value.get("anyOf", ()) if form.get("type") != "null"]
        if len(forms) == 1:  # that nothing may stand there is said by the default
            return {**self._resolved(forms[0]), **value}
        if "$ref" in value:
            return {**self._names[value["$ref"].rpartition("/")[2]], **value}
        return value

    def _objects(self, value: _Json) -> Iterator[_Json]:
        """The objects with keys of their own that may stand there."""
        if "properties" in value:
            yield value if "$ref" not in value else self._names[value["$ref"].rpartition("/")[2]]
        for form in (*value.get("oneOf", ()), *([value["items"]] if "items" in value else [])):
            yield from self._objects(self._resolved(form))

    def _allowed(self, value: _Json) -> str:
        if "enum" in value:
            return codes(value["enum"])
        if "oneOf" in value:
            return " or ".join(self._allowed(self._resolved(form)) for form in value["oneOf"])
        if "properties" in value:
            return "keys, below"
        if value["type"] == "array":
            return f"list of {self._allowed(self._resolved(value['items']))}"
        if value["type"] == "object":
            named = value.get("patternProperties") or {"": value["additionalProperties"]}
            (inner,) = (self._allowed(self._resolved(form)) for form in named.values())
            keys = self._resolved(value.get("propertyNames", {}))
            return f"{{{codes(keys['enum']) if 'enum' in keys else 'name'}: {inner}}}"
        return _scalar(value)


def _default(value: _Json) -> str:
    default = value.get("default")
    if "properties" in value and default != {} and not default:
        return "none" if "default" in value else "as below"
    if "properties" in value:
        return "as below"
    if default is None or default == []:
        return "none"
    return code(default if isinstance(default, str) else json.dumps(default))


def _scalar(value: _Json) -> str:
    """A type and its bounds in words."""
    name = _NAMES[value["type"]]
    if value.get("format") in ("date", "date-time"):
        name = value["format"]
    low, high = value.get("minimum"), value.get("maximum")
    if "exclusiveMinimum" in value:
        name += f" above {value['exclusiveMinimum']}"
    if low is not None:
        name += f" from {low}"
    if high is not None:
        name += f" to {high}"
    return name


def _meaning(key: str, value: _Json) -> str:
    text = one_line(value.get("description", "")).replace("<", "&lt;")
    if key in VERDICTS:
        return f"{text} [What to do]({class_entry(key).replace('docs/', '../')})"
    return text
