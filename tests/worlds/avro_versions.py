"""Topics whose Avro schema changed: each version with a record, and what it is read as.

A case is a list of versions in the order of their ids: the schema, a record as fastavro takes it,
and the fields that are not null when it is read, under the names that the reader has for them.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

Schema = Any
Version = tuple[Schema, Any, dict[str, Any]]


def record(*fields: tuple[str, Any], name: str = "Order", **more: Any) -> Schema:
    """A record's schema."""
    return {"type": "record", "name": name, "fields": [field(*f) for f in fields], **more}


def field(name: str, type_: Any, *aliases: str) -> Schema:
    """A field's schema."""
    made = {"name": name, "type": type_}
    return made | ({"aliases": list(aliases)} if aliases else {})


def logical(base: Any, name: str, **more: Any) -> Schema:
    """A type with a logical type."""
    return {"type": base, "logicalType": name, **more}


AT = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
LOCAL = AT.replace(tzinfo=None)
READ_AT = AT.astimezone().replace(tzinfo=None)
"""As Spark hands a time to Python: in the process's zone."""


def _line(space: str, *more: tuple[str, Any]) -> Schema:
    return record(("sku", "string"), ("n", "int"), *more, name="Line", namespace=space)


def _colour(space: str, *symbols: str) -> Schema:
    return {"type": "enum", "name": "Colour", "namespace": space, "symbols": list(symbols)}


CASES: dict[str, list[Version]] = {
    "numbers that were narrow, a removed field, a new one": [
        (
            record(("id", "int"), ("price", "float"), ("note", "string")),
            {"id": 1, "price": 1.5, "note": "x"},
            {"id": 1, "price": 1.5, "note": "x"},
        ),
        (
            record(("id", "long"), ("price", "double"), ("tags", {"type": "map", "values": "int"})),
            {"id": 2**40, "price": 2.5, "tags": {"a": 1}},
            {"id": 2**40, "price": 2.5, "tags": {"a": 1}},
        ),
        (
            record(("price", "int"), ("id", ["null", "long"])),
            {"price": 3, "id": None},
            {"price": 3.0},
        ),
    ],
    "names and namespaces that move": [
        (
            record(
                ("lines", {"type": "array", "items": _line("a")}),
                ("colour", _colour("a", "RED", "BLUE")),
                ("digest", {"type": "fixed", "name": "Md5", "size": 2}),
                namespace="a",
            ),
            {"lines": [{"sku": "s", "n": 1}], "colour": "BLUE", "digest": b"ab"},
            {"lines": [{"sku": "s", "n": 1, "at": None}], "colour": "BLUE", "digest": b"ab"},
        ),
        (
            record(
                ("colour", _colour("b.c", "BLUE", "RED", "GREEN")),
                ("digest", {"type": "fixed", "name": "b.Hash", "size": 2}),
                ("lines", {"type": "array", "items": _line("b.c", ("at", ["null", "string"]))}),
                name="Purchase",
                namespace="b",
            ),
            {"colour": "GREEN", "digest": b"cd", "lines": [{"sku": "t", "n": 2, "at": "u"}]},
            {"colour": "GREEN", "digest": b"cd", "lines": [{"sku": "t", "n": 2, "at": "u"}]},
        ),
    ],
    "one type in two places": [
        (
            record(
                ("bill", _line("a")), ("ship", "a.Line"), ("c", _colour("a", "X")), namespace="a"
            ),
            {"bill": {"sku": "s", "n": 1}, "ship": {"sku": "t", "n": 2}, "c": "X"},
            {"bill": {"sku": "s", "n": 1}, "ship": {"sku": "t", "n": 2}, "c": "X"},
        ),
        (
            record(("ship", ["null", _line("a")]), ("bill", ["null", "Line"]), namespace="a"),
            {"bill": {"sku": "s", "n": 1}, "ship": {"sku": "t", "n": 2}},
            {"bill": {"sku": "s", "n": 1}, "ship": {"sku": "t", "n": 2}},
        ),
    ],
    "a field with a new name": [
        (record(("name", "string"), ("n", "int")), {"name": "x", "n": 1}, {"name": "x", "n": 1}),
        (
            record(("full_name", "string", "name"), ("n", "int")),
            {"full_name": "y", "n": 2},
            {"name": "y", "n": 2},
        ),
        (
            record(("full_name", ["null", "string"])),
            {"full_name": "z"},
            {"name": "z"},
        ),
    ],
    "logical types": [
        (
            record(
                ("ms", logical("long", "timestamp-millis")),
                ("us", ["null", logical("long", "timestamp-micros")]),
                ("local", logical("long", "local-timestamp-millis")),
                ("day", logical("int", "date")),
                ("time", logical("int", "time-millis")),
                ("amount", logical("bytes", "decimal", precision=9, scale=2)),
                (
                    "rate",
                    {**logical("fixed", "decimal", precision=5, scale=3), "name": "R", "size": 4},
                ),
                ("id", logical("string", "uuid")),
            ),
            {
                "ms": AT,
                "us": AT,
                "local": LOCAL,
                "day": date(2026, 1, 2),
                "time": datetime(2026, 1, 1, 0, 0, 1).time(),
                "amount": Decimal("12.34"),
                "rate": Decimal("1.234"),
                "id": "2e7c7d3a-6d2b-4d55-9d4b-0f5f2b5b3c11",
            },
            {
                "ms": READ_AT,
                "us": READ_AT,
                "local": READ_AT,
                "day": date(2026, 1, 2),
                "time": 1000,
                "amount": Decimal("12.34"),
                "rate": Decimal("1.234"),
                "id": "2e7c7d3a-6d2b-4d55-9d4b-0f5f2b5b3c11",
            },
        ),
        (
            record(("amount", logical("bytes", "decimal", precision=20, scale=2))),
            {"amount": Decimal("123456789012345.67")},
            {"amount": Decimal("123456789012345.67")},
        ),
    ],
    "unions": [
        (
            record(("v", ["null", "double", "string"])),
            {"v": 1.5},
            {"v": {"member0": 1.5, "member1": None, "member2": None, "member3": None}},
        ),
        (
            record(("v", ["int", "string"])),
            {"v": 7},
            {"v": {"member0": None, "member1": None, "member2": 7, "member3": None}},
        ),
        (
            record(("v", "string")),
            {"v": "s"},
            {"v": {"member0": None, "member1": "s", "member2": None, "member3": None}},
        ),
        (
            record(("v", [_line("a"), "null"])),
            {"v": {"sku": "s", "n": 1}},
            {
                "v": {
                    "member0": None,
                    "member1": None,
                    "member2": None,
                    "member3": {"sku": "s", "n": 1},
                }
            },
        ),
    ],
    "numbers in one union": [
        (record(("v", ["int", "long"])), {"v": 2**40}, {"v": 2**40}),
        (record(("v", ["null", "int"])), {"v": 3}, {"v": 3}),
    ],
    "events of several kinds": [
        (
            [
                record(("a", "string"), ("same", "int"), name="Made", namespace="x"),
                record(("b", "string"), ("same", "int"), name="Paid", namespace="x"),
            ],
            {"b": "1", "same": 2},
            {"value": {"member0": None, "member1": {"b": "1", "same": 2}, "member2": None}},
        ),
        (
            [
                record(("b", "string"), ("same", "int"), name="Paid", namespace="y"),
                record(("c", "string"), name="Sent", namespace="y"),
            ],
            {"c": "3"},
            {"value": {"member0": None, "member1": None, "member2": {"c": "3"}}},
        ),
    ],
    "a single value": [
        ("string", "k1", {"value": "k1"}),
        (["null", "string"], "k2", {"value": "k2"}),
    ],
    "fields that hold nothing": [
        (
            record(("nothing", "null"), ("empty", record(name="E")), ("id", "int")),
            {"nothing": None, "empty": {}, "id": 1},
            {"id": 1},
        ),
        (
            record(("nothing", "string"), ("id", "int")),
            {"nothing": "x", "id": 2},
            {"nothing": "x", "id": 2},
        ),
    ],
    "a list of lists, with nulls": [
        (
            record(("m", {"type": "array", "items": {"type": "array", "items": ["null", "int"]}})),
            {"m": [[1, None], []]},
            {"m": [[1, None], []]},
        ),
    ],
    "string and bytes": [
        (record(("s", "string")), {"s": "a"}, {"s": "a"}),
        (record(("s", "bytes")), {"s": b"b"}, {"s": "b"}),
    ],
}
