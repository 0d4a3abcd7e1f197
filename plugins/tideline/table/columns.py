"""A table's columns, to and from delta-rs; and what a table asks of whoever writes to it.

That is told by its protocol's features, its properties, and columns that others have changed; what
Tideline makes of it, say the rules (`refusals`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from deltalake import CommitProperties, DeltaTable, Schema
from deltalake.schema import Field as DeltaField

from tideline.model.observation import ColumnChange, TableObservation, TableProperty
from tideline.table.opened import Opened
from tideline.table.schema import Field

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


def schema_of(columns: Sequence[Field]) -> Schema:
    """Columns in delta-rs' form."""
    return Schema.from_json(json.dumps({"type": "struct", "fields": list(columns)}))


def columns_of(table: Opened) -> tuple[Field, ...]:
    """The columns of a table in Delta's form, in its order."""
    return tuple(json.loads(table.schema().to_json())["fields"])


def lacking(table: Opened, wanted: Sequence[Field]) -> list[Field]:
    """The columns that a table does not have, or not with this type."""
    known = {column["name"]: column for column in columns_of(table)}
    return [c for c in wanted if known.get(c["name"], {}).get("type") != c["type"]]


def add_columns(table: DeltaTable, wanted: Sequence[Field]) -> tuple[Field, ...]:
    """Add the columns that a table does not have yet, at its end; its protocol stays.

    A column that is there keeps its type. Fields inside of it may be added as well: Delta takes the
    whole column for that.

    Args:
        table: Its newest version.

    Returns:
        All columns that the table has now.
    """
    if added := lacking(table, wanted):
        table.alter.add_columns(
            list(schema_of(added).fields),
            # A retry would add to columns that nobody has compared.
            commit_properties=CommitProperties(max_commit_retries=0),
        )
        table.update_incremental()
    return columns_of(table)


def asked_of_writers(table: Opened, wanted: Schema) -> TableObservation:
    """What a table asks of whoever writes to it, and nothing else about it.

    Args:
        wanted: The columns that it has to have.
    """
    return TableObservation(
        exists=True,
        features=_protocol_features(table),
        properties=_delta_properties(table),
        columns=_changed_columns(table, wanted),
    )


def _protocol_features(table: Opened) -> tuple[str, ...]:
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


def _delta_properties(table: Opened) -> tuple[TableProperty, ...]:
    """The table's `delta.` properties, sorted by name."""
    properties = table.metadata().configuration
    return tuple(
        TableProperty(name, str(value))
        for name, value in sorted(properties.items())
        if name.startswith("delta.")
    )


def _changed_columns(table: Opened, columns: Schema) -> tuple[ColumnChange, ...]:
    """The columns that are not as Tideline creates them; further ones that may be null are fine."""
    wanted = {field.name: field for field in columns.fields}
    fields = {field.name: field for field in table.schema().fields}
    missing = tuple(ColumnChange(name, "missing") for name in wanted.keys() - fields.keys())
    changed = (c for field in fields.values() for c in _changes(field, wanted.get(field.name)))
    return tuple(sorted((*missing, *changed), key=lambda c: (c.column, c.change)))


def _changes(field: DeltaField, wanted: DeltaField | None) -> Iterator[ColumnChange]:
    if wanted is not None and _plain(field) != _plain(wanted):
        yield ColumnChange(field.name, "type")
    if not field.nullable:
        yield ColumnChange(field.name, "required")
    for key, change in _MARKS.items():
        if key in field.metadata:
            yield ColumnChange(field.name, change)


def _plain(field: DeltaField) -> Any:
    """The column's type without the metadata of nested fields, which column mapping adds."""

    def stripped(data: Any) -> Any:
        if isinstance(data, dict):
            return {k: stripped(v) for k, v in data.items() if k != "metadata"}
        return [stripped(item) for item in data] if isinstance(data, list) else data

    return stripped(json.loads(field.to_json())["type"])
