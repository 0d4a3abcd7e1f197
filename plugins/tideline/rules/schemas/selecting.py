"""Which fields of a record become columns, where a stream file lists them. Pure.

A path names a field by the writer's names, with dots between it and the records that it is in. A
field whose own name has dots is found first. A field that has been renamed is found by its aliases,
and by those of the field that it is in the known record: of Protobuf's, the one with its number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import pairwise

from tideline.rules.schemas.names import nested_names
from tideline.rules.schemas.shapes import Field, Record


def selected(record: Record, paths: Collection[str], known: Record | None = None) -> Record:
    """A record with nothing but the fields at some paths, and the records that they are in.

    Args:
        record: All of it.
        paths: Those that it does not have are left out.
        known: What earlier schemas came to; it knows other names of fields.
    """
    wanted: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        if (place := _first_step(record, path, known)) is not None:
            wanted[place[0].name].append(place[1])
    fields = []
    for field in record.fields:
        rest = wanted[field.name]
        if "" in rest:
            fields.append(field)
        elif rest and isinstance(field.shape, Record):
            inner = selected(field.shape, rest, _known_record(field, known))
            fields += [replace(field, shape=inner)] if inner.fields else []
    return replace(record, fields=tuple(fields))


def chain_to(record: Record, path: str) -> tuple[Field, ...]:
    """The field at a path, behind the records that it is in; nothing if it is not there."""
    place = _first_step(record, path, None)
    if place is None:
        return ()
    field, rest = place
    if not rest:
        return (field,)
    assert isinstance(field.shape, Record)
    inner = chain_to(field.shape, rest)
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


def _first_step(record: Record, path: str, known: Record | None) -> tuple[Field, str] | None:
    """The outermost field on a path, and the path from there; empty where it is the field."""
    for also in (False, True):
        for field in record.fields:
            if path in _names(field, known, also=also):
                return field, ""
    for also in (False, True):
        for field in record.fields:
            for name in _names(field, known, also=also) if isinstance(field.shape, Record) else ():
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
