"""What a field holds, whatever language its schema is written in. Pure.

A shape says what a decoder has to tell apart: `timestamp-millis` and `timestamp-micros` make the
same column, but a reader that takes one for the other is wrong by a factor of 1,000.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from tideline.decoding.schemas.schema_changes import nested_names
from tideline.model.decoding import SchemaUnusable

MAX_PRECISION = 38
"""Of Spark's and Delta's decimals."""

COLUMN_TYPES = {
    "boolean": "boolean",
    "int": "long",
    "long": "long",
    "unsigned long": "decimal(20,0)",
    "integer": "long",
    "float": "double",
    "double": "double",
    "number": "double",
    "string": "string",
    "text": "string",
    "bytes": "binary",
    "variant": "variant",
    "date": "date",
    "day": "date",
    "date-time": "timestamp",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "local-timestamp-millis": "timestamp",
    "local-timestamp-micros": "timestamp",
    "ntz-millis": "timestamp_ntz",
    "ntz-micros": "timestamp_ntz",
    "zoned": "timestamp",
    "any-scale": "string",
    "timestamp-nanos": "long",
    "time-millis": "integer",
    "time-micros": "long",
}
"""Kind of a scalar -> type of its column."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value.

    Args:
        kind: A key of `COLUMN_TYPES`, or `decimal`.
        scale: Digits behind a decimal's point.
        written: What a logical type of Connect's is written as, if that is what it is.
        kept: Whether schemas know a better type by now, and the column keeps its own.
    """

    kind: str
    scale: int | None = None
    written: Shape | None = field(default=None, compare=False)
    kept: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class Enum:
    """One of some words; a string in the table.

    Args:
        symbols: In the reader's order.
        name: The type's full name where it was first met.
    """

    symbols: tuple[str, ...]
    name: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Bytes of one length.

    Args:
        size: In bytes.
        scale: Digits behind the point if it is a decimal.
        name: The type's full name where it was first met.
    """

    size: int
    scale: int | None = None
    name: str = field(default="", compare=False)

    @property
    def precision(self) -> int:
        """Most digits of a decimal of this size, as far as a table can have them."""
        return min(MAX_PRECISION, int(math.log10(2) * (8 * self.size - 1)))


@dataclass(frozen=True, slots=True)
class List:
    """Several values of one shape."""

    item: Shape


@dataclass(frozen=True, slots=True)
class Map:
    """Values of one shape by names."""

    value: Shape


@dataclass(frozen=True, slots=True)
class Union:
    """A value of one of several shapes; a struct of `member0`, `member1` ... in the table."""

    members: tuple[Shape, ...]


def asked_shape(
    read: Callable[[Any, tuple[str, ...]], Shape | None],
    schema: Any,
    path: tuple[str, ...],
    listed: Collection[str] | None,
) -> Shape | None:
    """The shape of a field; None where it has no column, or none can be made and nobody asks.

    Args:
        read: Makes the shape, of the field's schema and path.
        schema: The field's.
        path: From the outermost record on.
        listed: The paths of the fields that are asked for; None for all.
    """
    try:
        return read(schema, path)
    except SchemaUnusable:
        if listed is None or _is_asked(".".join(path), listed):
            raise
        return None


def _is_asked(here: str, listed: Collection[str]) -> bool:
    """Whether a field is listed, or one inside of it, or one around it."""
    related = (p == here or p.startswith(f"{here}.") or here.startswith(f"{p}.") for p in listed)
    return any(related)


@dataclass(frozen=True, slots=True)
class Field:
    """A record's field.

    Args:
        name: Its name in the reader.
        shape: What it holds.
        aliases: Other names that writers have for it.
        since: The schema that brought it.
        number: What it is known by, in Protobuf; 0 for a field that is known by its name.
    """

    name: str
    shape: Shape
    aliases: tuple[str, ...] = ()
    since: str = field(default="", compare=False)
    number: int = 0


@dataclass(frozen=True, slots=True)
class Record:
    """Fields in order. They have at least one member wherever a table has to hold them.

    Args:
        fields: In the reader's order.
        closed: Whether records with other fields are refused.
        wrapped: Whether the record is made up: the document is the value of its only field.
        name: The type's full name where it was first met.
    """

    fields: tuple[Field, ...]
    closed: bool = False
    wrapped: bool = False
    name: str = field(default="", compare=False)


Shape = Scalar | Enum | Fixed | List | Map | Union | Record


def as_written(shape: Shape | None) -> Shape | None:
    """A shape without the meaning that a logical type of Connect's gives it."""
    return shape.written or shape if isinstance(shape, Scalar) else shape


def column_type(shape: Shape, *, own_names: bool = False) -> object:
    """A column's type as Delta and Spark write it in JSON. Everything may be null.

    Args:
        shape: What it holds.
        own_names: Whether nested fields keep the names that they have in the record, for a decoder,
            instead of names that a table can have.
    """

    def inner(shape: Shape) -> object:
        return column_type(shape, own_names=own_names)

    match shape:
        case List(item):
            return {"type": "array", "elementType": inner(item), "containsNull": True}
        case Map(value):
            return {
                "type": "map",
                "keyType": "string",
                "valueType": inner(value),
                "valueContainsNull": True,
            }
        case Union(members):
            return struct_type((f"member{i}", inner(m)) for i, m in enumerate(members))
        case Record(fields):
            names = [f.name for f in fields]
            names = names if own_names else nested_names(names)
            return struct_type((n, inner(f.shape)) for n, f in zip(names, fields, strict=True))
    return _plain_type(shape)


def _plain_type(shape: Scalar | Enum | Fixed) -> str:
    match shape:
        case Scalar("decimal", scale):
            return f"decimal({MAX_PRECISION},{scale})"
        case Scalar(kind):
            return COLUMN_TYPES[kind]
        case Fixed(scale=None):
            return "binary"
        case Fixed(scale=scale):
            return f"decimal({shape.precision},{scale})"
    return "string"


def struct_type(fields: Iterable[tuple[str, object]]) -> object:
    """A struct of named types, as Delta writes it in JSON."""
    return {"type": "struct", "fields": [struct_field(n, t) for n, t in fields]}


def struct_field(name: str, type_: object) -> dict[str, object]:
    """One field of a table or a struct, as Delta writes it in JSON."""
    return {"name": name, "type": type_, "nullable": True, "metadata": {}}
