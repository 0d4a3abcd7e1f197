"""The columns that a list of fields makes, beside those that a table has already. Pure.

- A name that the stream file gives is the column's name, unless the table has it with another type.
- Without one, a field keeps the column that the rule has given it; else the rule names the path,
  joined with `_`.
- A column whose field is not listed any more stays in the table, and its name stays taken.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tideline.model.decoding import ReaderSchema, RecordPart
from tideline.model.typed_columns import FieldChoice, TypedColumn
from tideline.rules.schemas.names import column_name
from tideline.rules.schemas.selecting import chain_to, nested_steps
from tideline.rules.schemas.shapes import Field, Record, column_type


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list comes to.

    Args:
        columns: In the list's order; fields that no schema has are left out.
        refused: Names that fields cannot have, in words.
    """

    columns: tuple[TypedColumn, ...]
    refused: tuple[str, ...]


def columns_so_far(previous: ReaderSchema | None) -> tuple[TypedColumn, ...]:
    """Every column that a table has got from a part; those that are filled come last."""
    return () if previous is None else (*previous.dropped, *previous.in_table)


def name_of(
    chain: tuple[Field, ...],
    path: str,
    so_far: Sequence[TypedColumn],
    taken: Collection[str],
    *,
    key: bool,
) -> str:
    """The name of a field's column, where the stream file gives none.

    Args:
        chain: The field, behind the records that it is in.
        path: Its path. A field `a.b` is another one than the field `b` of a record `a`.
        so_far: As `columns_so_far` gives them.
        taken: Names that are taken, in lower case.
        key: Whether the field is the key's.
    """
    own = [c for c in so_far if (c.field, len(c.steps)) == (path, len(chain))]
    for column in reversed(own):
        if not column.is_given:
            return column.name
    joined = "_".join(field.name for field in chain)
    return column_name(joined, {*taken} - {c.name.lower() for c in own}, key=key)


def listed_columns(
    part: RecordPart,
    choices: Sequence[FieldChoice],
    reader: Record,
    formats: Mapping[str, str],
    so_far: Sequence[TypedColumn],
    reserved: Collection[str],
) -> Listed:
    """The columns of listed fields.

    Args:
        part: Key or value.
        choices: The list.
        reader: What the format decodes.
        formats: The format's column of each of its fields.
        so_far: As `columns_so_far` gives them.
        reserved: Names of the table's other columns.
    """
    given = {c.column.lower(): c.path for c in choices if c.column is not None}
    taken = {*(n.lower() for n in reserved), *(c.name.lower() for c in so_far), *given}
    columns, refused = [], []
    for choice in choices:
        chain = chain_to(reader, choice.path)
        if not chain:
            continue
        name = choice.column
        if name is None:
            name = name_of(chain, choice.path, so_far, taken, key=part == "key")
            taken.add(name.lower())
        steps = (formats[chain[0].name], *nested_steps(chain))
        kind, is_given = column_type(chain[-1].shape), choice.column is not None
        column = TypedColumn(name, choice.path, steps, kind, is_given)
        columns.append(column)
        if choice.column is not None:
            refused += _refusals(column, so_far, reserved)
        elif given.get(name.lower(), choice.path) != choice.path:
            other = given[name.lower()]
            refused.append(f"{other} cannot be {name}: that is the column of {choice.path}")
    return Listed(tuple(columns), tuple(refused))


def is_inside(path: Sequence[str], chain: tuple[Field, ...]) -> bool:
    """Whether a field's path leads into the field at a chain's end, and not only to it."""
    return len(path) > len(chain) and [*path[: len(chain)]] == [f.name for f in chain]


def _refusals(
    column: TypedColumn, so_far: Sequence[TypedColumn], reserved: Collection[str]
) -> list[str]:
    """Why a column cannot have the name that the stream file gives it."""
    if column.name.lower() in {n.lower() for n in reserved}:
        return [f"{column.field} cannot be {column.name}: another part has that column"]
    return [
        f"{column.field} cannot be {column.name}: the table has that column, from {known.field} and"
        f" of another type ({_short(known.type)}, the field is {_short(column.type)})"
        for known in so_far
        if known.name.lower() == column.name.lower()
        and known.field != column.field
        and known.type != column.type
    ]


def _short(kind: object) -> str:
    return str(kind["type"] if isinstance(kind, dict) else kind)
