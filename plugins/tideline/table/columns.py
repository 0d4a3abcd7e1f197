"""Columns from Delta's form to delta-rs', and columns that a table gets later."""

from __future__ import annotations

import json
from collections.abc import Sequence

from deltalake import CommitProperties, DeltaTable, Schema

from tideline.table.schema import COLUMNS, Field, delta_fields


def schema_of(columns: Sequence[Field]) -> Schema:
    """Columns in delta-rs' form.

    Args:
        columns: In Delta's form (protocol, Schema Serialization Format).
    """
    return Schema.from_json(json.dumps({"type": "struct", "fields": list(columns)}))


def table_schema() -> Schema:
    """The columns of every raw table."""
    return schema_of(delta_fields(COLUMNS))


def columns_of(table: DeltaTable) -> tuple[Field, ...]:
    """The columns of a table in Delta's form, in its order."""
    return tuple(json.loads(table.schema().to_json())["fields"])


def add_columns(table: DeltaTable, wanted: Sequence[Field]) -> tuple[Field, ...]:
    """Add the columns that a table does not have yet, at its end; its protocol stays.

    A column that is there keeps its type. Fields inside of it may be added as well: Delta takes the
    whole column for that.

    Args:
        table: Its newest version.
        wanted: In Delta's form.

    Returns:
        All columns that the table has now.

    Raises:
        CommitFailedError: Another program has changed the table meanwhile.
        DeltaError: The commit was refused.
    """
    known = {column["name"]: column for column in columns_of(table)}
    added = [c for c in wanted if known.get(c["name"], {}).get("type") != c["type"]]
    if added:
        table.alter.add_columns(
            list(schema_of(added).fields),
            commit_properties=CommitProperties(max_commit_retries=0),
        )
        table.update_incremental()
    return columns_of(table)
