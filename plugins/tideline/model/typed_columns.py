"""Which columns a typed table has, and which of them a stream file may choose. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

OwnColumn = Literal["topic", "timestamp", "is_tombstone", "schema_id", "headers"]
"""The table's own columns that one may keep or drop, in the table's order."""

CHOOSABLE: tuple[str, ...] = get_args(OwnColumn)
KEPT_BY_DEFAULT: tuple[OwnColumn, ...] = ("topic", "timestamp", "is_tombstone", "schema_id")

OWN_COLUMNS = (
    "topic_id",
    "generation",
    "topic",
    "partition",
    "offset",
    "timestamp",
    "is_tombstone",
    "schema_id",
    "headers",
    "event_date",
    "decode_plan_id",
)
"""Columns of the typed table that no field gives its value. Their names are reserved, whether the
table has them or not: it may get them later."""


@dataclass(frozen=True, slots=True)
class FieldChoice:
    """A field that becomes a column, as a stream file names it.

    Args:
        path: The field's name in the records, with dots between it and the records that it is in.
        column: The column's name; None for the rule's (`rules.schemas.names`).
    """

    path: str
    column: str | None = None


@dataclass(frozen=True, slots=True)
class TypedColumn:
    """A column of the typed table that a field, at any depth, gives its value.

    Args:
        name: The column's name.
        field: The field's path, as in `FieldChoice`.
        steps: How to reach it in what the format decodes: the name of one of its columns, then
            names of nested fields, as tables have them.
        type: As in `model.decoding.ColumnSource`.
        is_given: Whether the stream file gives the name.
    """

    name: str
    field: str
    steps: tuple[str, ...]
    type: object
    is_given: bool = False
