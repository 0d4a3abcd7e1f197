"""Which fields become columns where a stream file lists them, and what they are called. Pure.

- A path names a field by the writer's names, with dots between it and the records that it is in. A
  field whose own name has dots is found first. One that has been renamed is found by its aliases,
  and by those of the field that it is in the known record: of Protobuf's, the one with its number.
- A name that the stream file gives is the column's name, unless the table has it with another type.
- Without one, a field keeps the column that the rule has given it; else the rule names the path,
  joined with `_`.
- A column whose field is not listed any more stays in the table, and its name stays taken.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from tideline.decoding.schemas.schema_changes import column_name, nested_names
from tideline.decoding.schemas.shapes import Field, Record, as_written, column_type
from tideline.model.decoding import (
    OWN_COLUMNS,
    FieldChoice,
    ReaderSchema,
    TypedColumn,
    without_case,
)


@dataclass(frozen=True, slots=True)
class Listed:
    """What a list comes to.

    Args:
        columns: In the list's order; fields that no schema has are left out.
        refused: Names that fields cannot have, in words.
    """

    columns: tuple[TypedColumn, ...]
    refused: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Naming:
    """How a part's fields are named.

    Args:
        key: Whether they are the key's.
        own: Names of the table's own columns.
        bare: How many outermost records on a path give no part of a name.
    """

    key: bool = False
    own: Collection[str] = OWN_COLUMNS
    bare: int = 0


def columns_so_far(previous: ReaderSchema | None) -> tuple[TypedColumn, ...]:
    """Every column that a table has got from a part; those that are filled come last."""
    return () if previous is None else (*previous.dropped, *previous.in_table)


def name_of(
    chain: tuple[Field, ...],
    path: str,
    so_far: Sequence[TypedColumn],
    taken: Collection[str],
    naming: Naming,
) -> str:
    """The name of a field's column, where the stream file gives none.

    Args:
        chain: The field, behind the records that it is in.
        path: Its path. A field `a.b` is another one than the field `b` of a record `a`.
        so_far: As `columns_so_far` gives them.
        taken: Names that are taken, in lower case.
        naming: How the part's fields are named.
    """
    own = [c for c in so_far if (c.field, len(c.steps)) == (path, len(chain))]
    for column in reversed(own):
        if not column.is_given:
            return column.name
    joined = "_".join(field.name for field in chain[naming.bare :])
    free = {*taken} - {without_case(c.name) for c in own}
    return column_name(joined, free, key=naming.key, own=naming.own)


def listed_columns(
    choices: Sequence[FieldChoice],
    reader: Record,
    formats: Mapping[str, str],
    so_far: Sequence[TypedColumn],
    reserved: Collection[str],
    naming: Naming,
) -> Listed:
    """The columns of listed fields.

    Args:
        choices: The list.
        reader: What the format decodes.
        formats: The format's column of each of its fields.
        so_far: As `columns_so_far` gives them.
        reserved: Names of the table's other columns.
        naming: How the part's fields are named.
    """
    given = {without_case(c.column): c.path for c in choices if c.column is not None}
    taken = {*(without_case(n) for n in reserved), *(without_case(c.name) for c in so_far), *given}
    columns, refused = [], []
    for choice in choices:
        chain = chain_to(reader, choice.path)
        if not chain:
            continue
        name = choice.column
        if name is None:
            name = name_of(chain, choice.path, so_far, taken, naming)
            taken.add(without_case(name))
        steps = (formats[chain[0].name], *nested_steps(chain))
        kind, is_given = column_type(chain[-1].shape), choice.column is not None
        column = TypedColumn(name, choice.path, steps, kind, is_given)
        columns.append(column)
        if choice.column is not None:
            refused += _refusals(column, so_far, reserved)
        elif given.get(without_case(name), choice.path) != choice.path:
            other = given[without_case(name)]
            refused.append(f"{other} cannot be {name}: that is the column of {choice.path}")
    return Listed(tuple(columns), tuple(refused))


def is_inside(path: Sequence[str], chain: tuple[Field, ...]) -> bool:
    """Whether a field's path leads into the field at a chain's end, and not only to it."""
    return len(path) > len(chain) and [*path[: len(chain)]] == [f.name for f in chain]


def leads_to(path: Sequence[str], chain: tuple[Field, ...]) -> bool:
    """Whether a field's path is that of the field at a chain's end."""
    return [*path] == [f.name for f in chain]


def _refusals(
    column: TypedColumn, so_far: Sequence[TypedColumn], reserved: Collection[str]
) -> list[str]:
    """Why a column cannot have the name that the stream file gives it."""
    if without_case(column.name) in {without_case(n) for n in reserved}:
        return [f"{column.field} cannot be {column.name}: another part has that column"]
    return [
        f"{column.field} cannot be {column.name}: the table has that column, from {known.field} and"
        f" of another type ({_short(known.type)}, the field is {_short(column.type)})"
        for known in so_far
        if without_case(known.name) == without_case(column.name)
        and known.field != column.field
        and known.type != column.type
    ]


def _short(kind: object) -> str:
    return str(kind["type"] if isinstance(kind, dict) else kind)


def selected(record: Record, paths: Collection[str], known: Record | None = None) -> Record:
    """A record with nothing but the fields at some paths, and the records that they are in.

    Args:
        record: All of it.
        paths: Those that it does not have are left out.
        known: What earlier schemas came to; it knows other names of fields.
    """
    wanted: dict[str, list[str | None]] = defaultdict(list)
    for path in paths:
        if (place := _first_step(record, path, known)) is not None:
            wanted[place[0].name].append(place[1])
    fields = []
    for field in record.fields:
        rest = wanted[field.name]
        if None in rest:
            fields.append(field)
        elif rest and isinstance(whole := as_written(field.shape), Record):
            inside = [path for path in rest if path is not None]
            inner = selected(whole, inside, _known_record(field, known))
            fields += [replace(field, shape=inner)] if inner.fields else []
    return replace(record, fields=tuple(fields))


def chain_to(record: Record, path: str) -> tuple[Field, ...]:
    """The field at a path, behind the records that it is in; nothing if it is not there."""
    place = _first_step(record, path, None)
    if place is None:
        return ()
    field, rest = place
    if rest is None:
        return (field,)
    inner = chain_to(field.shape, rest) if isinstance(field.shape, Record) else ()
    return (field, *inner) if inner else ()


def nested_steps(chain: tuple[Field, ...]) -> tuple[str, ...]:
    """Names in the table of the fields behind a chain's first, each a struct's."""
    steps = []
    for outer, inner in pairwise(chain):
        assert isinstance(outer.shape, Record)
        names = [f.name for f in outer.shape.fields]
        steps.append(nested_names(names)[names.index(inner.name)])
    return tuple(steps)


def paths_in(record: Record) -> Iterator[str]:
    """The path of every field, those of records behind the record's own."""
    for field in record.fields:
        yield field.name
        if isinstance(field.shape, Record):
            yield from (f"{field.name}.{path}" for path in paths_in(field.shape))


def _first_step(record: Record, path: str, known: Record | None) -> tuple[Field, str | None] | None:
    """The outermost field on a path, and the path from there, which may be an empty name.

    That is None where the path is the field's.
    """
    for also in (False, True):
        for field in record.fields:
            if path in _names(field, known, also=also):
                return field, None
    for also in (False, True):
        for field in record.fields:
            is_record = isinstance(as_written(field.shape), Record)
            for name in _names(field, known, also=also) if is_record else ():
                if path.startswith(f"{name}."):
                    return field, path[len(name) + 1 :]
    return None


def _names(field: Field, known: Record | None, *, also: bool) -> tuple[str, ...]:
    """A field's name, or the others that it has."""
    if not also:
        return (field.name,)
    mine = _known_field(field, known)
    return field.aliases if mine is None else (*field.aliases, mine.name, *mine.aliases)


def _known_field(field: Field, known: Record | None) -> Field | None:
    fields = known.fields if known is not None else ()
    if field.number:
        return next((f for f in fields if f.number == field.number), None)
    same = (f for f in fields if f.name == field.name)
    related = (f for f in fields if f.name in field.aliases or field.name in f.aliases)
    return next(same, next(related, None))


def _known_record(field: Field, known: Record | None) -> Record | None:
    mine = _known_field(field, known)
    return mine.shape if mine is not None and isinstance(mine.shape, Record) else None
