"""What several JSON Schemas for one value come to. Pure.

`ANY` stands for a schema that says nothing, None for one that allows nothing but null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from tideline.rules.schemas.shapes import Field, Record, Scalar, Shape

Found = Shape | None
TEXT = Scalar("text")
ANY = Scalar("any")
_STRINGS = {Scalar("string"), Scalar("date-time"), Scalar("day")}
_NUMBERS = {Scalar("integer"), Scalar("number")}


def all_of(found: Iterable[Found]) -> Found:
    """The shape of values that satisfy all the schemas."""
    said = [f for f in found if f is not ANY]
    narrow = [f for f in said if f != TEXT] or said[:1]
    if not narrow:
        return ANY
    first, *others = narrow
    for other in others:
        if isinstance(first, Record) and isinstance(other, Record):
            first = _merged(first, other, all_of)
        elif {first, other} <= _NUMBERS:
            first = first if first == other else Scalar("integer")
        elif {first, other} <= _STRINGS:
            first = other if first == Scalar("string") else first
        elif first != other:
            return TEXT
    return first


def any_of(found: Sequence[Found]) -> Found:
    """The shape of values that satisfy one of the schemas; `ANY` for no schemas."""
    said = [f for f in found if f is not None]
    if not said:
        return None if found else ANY
    if any(f is ANY for f in said):
        records = [f for f in said if isinstance(f, Record)]
        return ANY if not records or len(records) + said.count(ANY) < len(said) else any_of(records)
    first, *others = said
    for other in others:
        if isinstance(first, Record) and isinstance(other, Record):
            first = _merged(first, other, any_of)
        elif {first, other} <= _NUMBERS:
            first = first if first == other else Scalar("number")
        elif {first, other} <= _STRINGS:
            first = first if first == other else Scalar("string")
        elif first != other:
            return TEXT
    return first


def of_values(values: Iterable[Any]) -> Found:
    """The shape of listed values."""
    return any_of([_of_value(v) for v in values])


def _of_value(value: Any) -> Found:
    match value:
        case None:
            return None
        case bool():
            return Scalar("boolean")
        case int():
            return Scalar("integer")
        case float():
            return Scalar("number")
        case str():
            return Scalar("string")
    return TEXT


def _merged(first: Record, other: Record, combined: Callable[[list[Found]], Found]) -> Record:
    """The fields of both records; those of both as the schemas are combined."""
    theirs = {f.name: f for f in other.fields}
    fields: list[Field] = []
    for field in first.fields:
        twin = theirs.pop(field.name, None)
        shape = combined([field.shape, twin.shape]) if twin else field.shape
        fields.append(replace(field, shape=TEXT if shape is None or shape is ANY else shape))
    return Record((*fields, *theirs.values()), first.closed and other.closed)
