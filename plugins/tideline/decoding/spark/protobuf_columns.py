"""Columns in Arrow from Protobuf's messages: one column after the other, not row by row.

Runs in Spark's Python workers, to which it is sent by value: it imports nothing of ours.

A column is a tuple: the kind of a scalar, `enum`, `list` and `map` with a column, `record` with
fields; a field is its number, its name in the table, and a column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, chain
from operator import attrgetter
from typing import Any

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

Column = tuple[Any, ...]
Build = Callable[[Sequence[Any]], pa.Array]
"""Messages, or values of which some may be None -> an array of as many."""

_SCALARS = {
    "long": pa.int64(),
    "unsigned long": pa.decimal128(20, 0),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "enum": pa.string(),
}
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""Of the years 1 and 9999, as Protobuf's Timestamp has them."""


class Unfit(Exception):
    """A message can be read, and has a value that its column cannot hold.

    Args:
        error_class: As in `model.decoding.ErrorClass`.
        error: One short sentence.
    """

    def __init__(self, error_class: str, error: str) -> None:
        super().__init__(error_class, error)
        self.error_class = error_class
        self.error = error


def arrow_type(column: Column) -> pa.DataType:
    """The type of a column's array."""
    kind, *inner = column
    if kind == "list":
        return pa.list_(arrow_type(inner[0]))
    if kind == "map":
        return pa.map_(pa.string(), arrow_type(inner[0]))
    if kind == "record":
        return pa.struct([pa.field(name, arrow_type(c)) for _, name, c in inner[0]])
    return _SCALARS[kind]


def record_builder(fields: Iterable[tuple[int, str, Column]], message: Any) -> Build:
    """Messages to a struct.

    Args:
        fields: Of the table; those that the messages do not have are null.
        message: The messages' descriptor.
    """
    wanted = [
        (pa.field(name, arrow_type(c)), _field(number, c, message)) for number, name, c in fields
    ]
    empty = GetMessageClass(message)()

    def build(messages: Sequence[Any]) -> pa.Array:
        missing = [m is None for m in messages]
        has_missing = True in missing
        there = [empty if m is None else m for m in messages] if has_missing else messages
        mask = pa.array(missing) if has_missing else None
        if not wanted:
            return pa.array([None if m else {} for m in missing], pa.struct([]))
        arrays = [make(there) for _, make in wanted]
        return pa.StructArray.from_arrays(arrays, fields=[f for f, _ in wanted], mask=mask)

    return build


def _field(number: int, column: Column, message: Any) -> Build:
    """Messages to the values of one of their fields."""
    field = message.fields_by_number.get(number)
    if field is None:
        return lambda messages: pa.nulls(len(messages), arrow_type(column))
    name, get = field.name, attrgetter(field.name)
    if column[0] == "map":
        return _map_builder(get, column[1], field.message_type)
    values = _values(column[1] if column[0] == "list" else column, field)
    if column[0] == "list":
        return _list_builder(get, values)
    if not field.has_presence:
        return lambda messages: values(list(map(get, messages)))
    return lambda messages: values([get(m) if m.HasField(name) else None for m in messages])


def _list_builder(get: Callable[[Any], Any], items: Build) -> Build:
    def build(messages: Sequence[Any]) -> pa.Array:
        lists = list(map(get, messages))
        flat = list(chain.from_iterable(lists))
        return pa.ListArray.from_arrays(_offsets(lists), items(flat))

    return build


def _map_builder(get: Callable[[Any], Any], column: Column, entry: Any) -> Build:
    """Maps in the order of their keys: Protobuf has none, and a row is the same each time."""
    keys = _values(("string",), entry.fields_by_number[1])
    values = _values(column, entry.fields_by_number[2])

    def build(messages: Sequence[Any]) -> pa.Array:
        lists = [sorted(get(m).items(), key=lambda pair: pair[0]) for m in messages]
        flat = list(chain.from_iterable(lists))
        made = keys([k for k, _ in flat]), values([v for _, v in flat])
        return pa.MapArray.from_arrays(_offsets(lists), *made)

    return build


def _offsets(lists: Sequence[Any]) -> pa.Array:
    return pa.array([0, *accumulate(map(len, lists))], pa.int32())


def _values(column: Column, field: Any) -> Build:
    """Values of a field, some of them None, to an array."""
    kind = column[0]
    if kind == "record":
        return record_builder(column[1], field.message_type)
    if kind == "timestamp-micros":
        return _times
    type_ = field.type
    if field.message_type is not None and field.message_type.full_name in _WRAPPERS:
        inner = _plain(kind, field.message_type.fields_by_number[1].type)
        return lambda values: inner([None if v is None else v.value for v in values])
    if kind == "enum":
        names = {v.number: v.name for v in reversed(field.enum_type.values)}  # the first one counts
        return lambda values: pa.array(
            [None if v is None else names.get(v) or str(v) for v in values], pa.string()
        )
    return _plain(kind, type_)


def _plain(kind: str, type_: int) -> Build:
    arrow = _SCALARS[kind]
    if kind == "string" and type_ == FieldDescriptor.TYPE_STRING:
        return _texts
    if kind == "string" and type_ == FieldDescriptor.TYPE_BYTES:
        return lambda values: _texts([None if v is None else _text(v) for v in values])
    if kind == "string":  # a map's key
        return lambda values: pa.array([str(v).lower() for v in values], arrow)
    if kind == "bytes" and type_ == FieldDescriptor.TYPE_STRING:
        return lambda values: pa.array([None if v is None else _bytes(v) for v in values], arrow)
    if kind == "double":
        return lambda values: pa.array([None if v is None else float(v) for v in values], arrow)
    if kind == "unsigned long":
        return lambda values: _numbers(values).cast(arrow)
    return lambda values: pa.array(values, arrow)


def _numbers(values: Sequence[Any]) -> pa.Array:
    """Whole numbers below zero, or beyond a long, but not both among the values of one field."""
    is_signed = any(v is not None and v < 0 for v in values)
    return pa.array(values, pa.int64() if is_signed else pa.uint64())


def _texts(values: Sequence[Any]) -> pa.Array:
    """Strings; what is no UTF-8 comes as bytes, where Protobuf has not refused it already."""
    if bytes in set(map(type, values)):
        raise Unfit("invalid_utf8", "invalid UTF-8 in a string")
    return pa.array(values, pa.string())


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise Unfit("invalid_utf8", "invalid UTF-8 in a string") from None


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _times(values: Sequence[Any]) -> pa.Array:
    """Protobuf's Timestamps; what is smaller than a microsecond is cut off."""
    found: list[int | None] = []
    for value in values:
        if value is None:
            found.append(None)
            continue
        seconds, nanos = value.seconds, value.nanos
        if not (_FIRST_SECOND <= seconds <= _LAST_SECOND and 0 <= nanos < 1_000_000_000):
            raise Unfit("out_of_range", "a time is not within the years 1 to 9999")
        found.append(seconds * 1_000_000 + nanos // 1000)
    return pa.array(found, _SCALARS["timestamp-micros"])
