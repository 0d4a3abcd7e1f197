"""The pages about the keys of stream files and fleet files, from the JSON Schema of the models."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from devstack.reference.markdown import code, codes, one_line, page, table
from tideline.model.incident import class_entry
from tideline.model.verdicts import VERDICTS
from tideline.stream.fleet_file import Fleet
from tideline.stream.sections import FileSchema
from tideline.stream.stream import Stream

_NAMES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true, false"}
_Json = dict[str, Any]
_HEADINGS = ("key", "default", "allowed", "meaning")


_RARE = frozenset(
    {
        "patience_seconds",
        "headroom_warning_seconds",
        "decode.quarantine.max_share",
        "decode.event_time.earliest",
        "decode.event_time.latest_ahead_seconds",
        "maintenance.compact_below_mb",
        "maintenance.target_mb",
        "maintenance.vacuum_hours",
        "maintenance.quarantine_days",
        "airflow.start_date",
    }
)
"""Keys that no example sets: they stand in a table of their own."""
_MORE = {
    "schedule": "Presets: `@hourly`, `@daily`, `@weekly`, `@monthly`, `@quarterly`, `@yearly`;"
    " `@once` and `@continuous` have no data intervals and are refused.",
    "trigger": "[How it behaves](../airflow.md#start-runs-by-lag).",
    "limits": "They are shared fairly over the partitions.",
    "ledger": "[Which one](../concepts.md#two-locations-for-the-ledger).",
    "ledger_uri": "It lies neither inside the table's folder nor around it.",
    "kafka.connection": "[Its properties](../brokers-security.md#the-connection).",
    "table.connection": "[Its parts](../object-stores.md#the-connection).",
    "spark.connection": "Or of type [spark_connect](../spark.md).",
    "registry.connection": "Needed with a `subject`."
    " [Its parts](../decoding.md#the-schema-registry).",
    "decode.transform": "[What it may do](../how-to/decode.md#transform-rows-with-a-function).",
    "decode.value.message": "[What such a record has to be]"
    "(../decoding.md#what-a-protobuf-record-has-to-be).",
    "decode.value.fields": "[How](../decoding.md#choosing-columns).",
    "maintenance.vacuum_hours": "Longer than any reader reads an older version.",
    "airflow.access_control": "`can_edit` is for `DAGs` only, `can_create` and `menu_access` for"
    " `DAG Runs` only. [Rights](../rights.md).",
}
"""What the models' own words leave to other pages, by key."""


def build_page() -> str:
    """The text of docs/reference/stream-file.md."""
    schema = Stream.model_json_schema(schema_generator=FileSchema)
    sections = _Sections(schema["$defs"])
    lines = [
        "One YAML file for each stream, in `dags/streams/` or the folder that",
        "[`TIDELINE_STREAMS`](variables.md) names; editors check it with",
        "[`stream.schema.json`](../stream.schema.json). Unknown keys, empty sections, wrong",
        "types and contradictions are refused with file, line, key, value and what is allowed; so",
        "are anchors and aliases, more than 20 levels, and more than 1,000,000 bytes. In Airflow a",
        "refused file becomes a Dag without a schedule, named like the file and tagged `refused`,",
        "whose notes and only task say what is wrong; the other streams go on. Watch for that",
        "tag, or run `tideline validate` before you deploy files.",
        "",
        *sections.lines("The file", schema, ""),
        "## Rarely needed",
        "",
        "No example sets these; the defaults are meant for all but a few streams.",
        "",
        *table(_HEADINGS, sections.rare),
    ]
    return page("Stream file", "`stream/stream.py`", *lines)


def build_fleet_page() -> str:
    """The text of docs/reference/fleet-file.md."""
    schema = Fleet.model_json_schema(schema_generator=FileSchema)
    lines = [
        "One YAML file for many topics, beside stream files; what it is for and how it behaves:",
        "[many topics](../how-to/many-topics.md). Editors check it with",
        "[`fleet.schema.json`](../fleet.schema.json). It is refused as a",
        "[stream file](stream-file.md) is; a problem of the template is told with its line here.",
        "",
        *_Sections(schema.get("$defs", {})).lines("The file", schema, ""),
    ]
    return page("Fleet file", "`stream/fleet_file.py`", *lines)


class _Sections:
    """A heading and a table for each object in a stream file.

    Args:
        names: What a JSON Schema refers to.
    """

    def __init__(self, names: _Json) -> None:
        self._names = names
        self._told: dict[str, str] = {}
        self.rare: list[Sequence[str]] = []

    def lines(self, title: str, schema: _Json, path: str) -> Iterator[str]:
        """The object at a path, which ends in a dot, and those in it."""
        required = schema.get("required", ())
        known = {key: self._resolved(value) for key, value in schema["properties"].items()}
        yield from (f"## {title}", "")
        if path:
            yield from (one_line(schema["description"]), "")
        usual: list[Sequence[str]] = []
        for key, value in known.items():
            name = f"{path}{key}"
            default = "required" if key in required else _default(value)
            row = (code(name), default, self._allowed(value), _meaning(name, value))
            (self.rare if name in _RARE else usual).append(row)
        if usual:
            yield from table(_HEADINGS, usual)
        if len(usual) < len(known):
            keys = "Its other keys are" if usual else "Its keys are"
            yield from (f"{keys if path else 'Others are'} [rarely needed](#rarely-needed).", "")
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
        if forms:
            return {**value, "oneOf": forms}
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
        if value.get("additionalProperties") is True:
            return "mapping, as in a [stream file](stream-file.md)"
        if value["type"] == "object":
            named = value.get("patternProperties") or {"": value["additionalProperties"]}
            (inner,) = (self._allowed(self._resolved(form)) for form in named.values())
            keys = self._resolved(value.get("propertyNames", {}))
            return f"{{{codes(keys['enum']) if 'enum' in keys else 'name'}: {inner}}}"
        return _scalar(value)


def _default(value: _Json) -> str:
    default = value.get("default")
    if "properties" in value and default is None:
        return "none"
    if "properties" in value or ("oneOf" in value and isinstance(default, dict)):
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


def _meaning(name: str, value: _Json) -> str:
    text = one_line(value.get("description", "")).replace("<", "&lt;")
    kind = name.removeprefix("on_reset.")
    if kind in VERDICTS:
        more = f"[What to do]({class_entry(kind).replace('docs/', '../')})"
    else:
        more = _MORE.get(name, "")
    return f"{text.rstrip('.')}. {more}" if more else text
