"""Whether files can be added to a table and removed from it without Delta's own writer."""

from __future__ import annotations

from deltalake import DeltaTable

from tideline.table.create import table_schema

_LEGACY = (1, 2)
"""Reader and writer versions of Delta's protocol, in the tables that Tideline creates."""
_HARMLESS = frozenset({"appendOnly", "invariants"})
"""What writer version 2 means (Delta protocol, "Writer Version Requirements"). A table that lists
features may list these two; whether they are in use is looked up in properties and columns."""


def partition_columns(table: DeltaTable) -> tuple[str, ...] | None:
    """The partition columns of a table that the run can write; None if it asks for more."""
    return None if asks_for_delta(table) else tuple(table.metadata().partition_columns)


def asks_for_delta(table: DeltaTable) -> tuple[str, ...]:
    """What in a table only Delta's own writer handles; empty if the run can write it.

    Nullable columns that others have added are fine: new rows have no value there.
    """
    return (*_features(table), *_properties(table), *_columns(table))


def _features(table: DeltaTable) -> list[str]:
    protocol = table.protocol()
    versions = (protocol.min_reader_version, protocol.min_writer_version)
    listed = {*(protocol.reader_features or ()), *(protocol.writer_features or ())}
    if versions == _LEGACY or (listed and listed <= _HARMLESS):
        return []
    named = [f"table feature {name}" for name in sorted(listed - _HARMLESS)]
    return named or [f"reader version {versions[0]} and writer version {versions[1]}"]


def _properties(table: DeltaTable) -> list[str]:
    properties = table.metadata().configuration
    found = [f"constraint {name[18:]}" for name in properties if name.startswith("delta.constr")]
    if properties.get("delta.appendOnly", "false").lower() == "true":
        found.append("property delta.appendOnly")
    return found


def _columns(table: DeltaTable) -> list[str]:
    there = {field.name: field for field in table.schema().fields}
    found = []
    for wanted in table_schema().fields:
        field = there.pop(wanted.name, None)
        if field is None:
            found.append(f"no column {wanted.name}")
        elif field.type != wanted.type:
            found.append(f"column {wanted.name} of another type")
        elif _is_strict(field):
            found.append(f"column {wanted.name} with a condition")
    extra = [f"column {name} with a condition" for name, f in there.items() if _is_strict(f)]
    return [*found, *extra]


def _is_strict(field: object) -> bool:
    """Whether a column must have a value, or one that is made or checked (`delta.*` metadata)."""
    metadata = getattr(field, "metadata", None) or {}
    return not getattr(field, "nullable", False) or any(k.startswith("delta.") for k in metadata)
