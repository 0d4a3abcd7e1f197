"""What a table asks of whoever writes to it: features, properties, columns that others changed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from deltalake import DeltaTable, Schema
from deltalake.schema import Field

from tideline.model.observation import ColumnChange, TableProperty

_NUMBERED = (
    (2, ("appendOnly", "invariants")),
    (3, ("checkConstraints",)),
    (4, ("changeDataFeed", "generatedColumns")),
    (5, ("columnMapping",)),
    (6, ("identityColumns",)),
)
"""The features that a writer version stands for (Delta protocol, "Writer Version Requirements")."""

_MARKS: dict[str, Literal["generated", "identity", "invariant"]] = {
    "delta.generationExpression": "generated",
    "delta.identity.start": "identity",
    "delta.invariants": "invariant",
}
"""Keys in a column's metadata that ask something of a writer."""


def protocol_features(table: DeltaTable) -> tuple[str, ...]:
    """Names of the features in the table's protocol, sorted."""
    protocol = table.protocol()
    if protocol.min_writer_version >= 7:
        named = {*(protocol.writer_features or ()), *(protocol.reader_features or ())}
        return tuple(sorted(named))
    return tuple(
        name
        for version, names in _NUMBERED
        if version <= protocol.min_writer_version
        for name in names
    )


def delta_properties(table: DeltaTable) -> tuple[TableProperty, ...]:
    """The table's `delta.` properties, sorted by name."""
    properties = table.metadata().configuration
    return tuple(
        TableProperty(name, str(value))
        for name, value in sorted(properties.items())
        if name.startswith("delta.")
    )


def changed_columns(table: DeltaTable, columns: Schema) -> tuple[ColumnChange, ...]:
    """The columns that are not as Tideline creates them; further ones that may be null are fine.

    Args:
        table: The version that is looked at.
        columns: What it has to have.
    """
    wanted = {field.name: field for field in columns.fields}
    fields = {field.name: field for field in table.schema().fields}
    missing = tuple(ColumnChange(name, "missing") for name in wanted.keys() - fields.keys())
    changed = (c for field in fields.values() for c in _changes(field, wanted.get(field.name)))
    return tuple(sorted((*missing, *changed), key=lambda c: (c.column, c.change)))


def _changes(field: Field, wanted: Field | None) -> Iterator[ColumnChange]:
    if wanted is not None and _plain(field) != _plain(wanted):
        yield ColumnChange(field.name, "type")
    if not field.nullable:
        yield ColumnChange(field.name, "required")
    for key, change in _MARKS.items():
        if key in field.metadata:
            yield ColumnChange(field.name, change)


def _plain(field: Field) -> Any:
    """The column's type without the metadata of nested fields, which column mapping adds."""

    def stripped(data: Any) -> Any:
        if isinstance(data, dict):
            return {k: stripped(v) for k, v in data.items() if k != "metadata"}
        return [stripped(item) for item in data] if isinstance(data, list) else data

    return stripped(json.loads(field.to_json())["type"])
