"""Keys at the limits of their types, and values of a row's columns. Pure; the same each time."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

_MICRO = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1)
_TIMES = [
    datetime(1, 1, 1),
    datetime(1582, 10, 4, 23, 59, 59),
    datetime(1582, 10, 15),
    datetime(1883, 11, 18, 12, 3, 58),
    _EPOCH - _MICRO,
    _EPOCH,
    _EPOCH + _MICRO,
    datetime(2026, 3, 29, 2, 30),
    datetime(9999, 12, 31, 23, 59, 59, 999999),
]
_DAYS = ("0001-01-01", "1582-10-04", "1582-10-15", "1969-12-31", "1970-01-01", "9999-12-31")
_TEXTS = ["", " ", "a", "A", "a ", "null", "é", "e\u0301", '"', "\\", '["a"]', "0", "x" * 300]
_LIMITS = {
    "text": (pa.string(), _TEXTS),
    "long": (pa.int64(), [0, -1, 1, 2**63 - 1, -(2**63), 10**15, -(10**15)]),
    "integer": (pa.int32(), [0, -1, 1, 2**31 - 1, -(2**31)]),
    "decimal": (
        pa.decimal128(38, 10),
        [
            Decimal(t)
            for t in ("0", "1E-10", "-1E-10", "1E-8", "1E-7", "1E-6", "0.5", "1", "-1", "9" * 28)
        ],
    ),
    "fraction": (
        pa.decimal128(38, 38),
        [Decimal(t) for t in ("0", "1E-38", "-1E-38", "1E-7", "0.1", "0." + "9" * 38)],
    ),
    "whole": (
        pa.decimal128(38, 0),
        [Decimal(t) for t in ("0", "1", "-1", "9" * 38, "-" + "9" * 38)],
    ),
    "timestamp": (pa.timestamp("us", "UTC"), [t.replace(tzinfo=UTC) for t in _TIMES]),
    "local": (pa.timestamp("us"), _TIMES),
    "date": (
        pa.date32(),
        [date.fromisoformat(text) for text in _DAYS],
    ),
    "boolean": (pa.bool_(), [False, True]),
    "binary": (pa.binary(), [b"", b"\0", b"\0\0", b"a", b"A", b"\xff\xfe", b"[1]", b"x" * 40]),
}
"""Of each type of a key's column: Arrow's type, and values that differ by as little as they can."""

KEYS = {
    "text": ("text",),
    "long": ("long",),
    "decimal": ("decimal",),
    "timestamp": ("timestamp",),
    "binary": ("binary",),
    "date": ("date",),
    "text+long": ("text", "long"),
    "decimal+text": ("decimal", "text"),
    "binary+binary": ("binary", "binary"),
    "local+boolean": ("local", "boolean"),
    "fraction+integer": ("fraction", "integer"),
    "whole+date+text": ("whole", "date", "text"),
}
"""Keys by name: the types of their columns."""

ROW = {
    "v": pa.string(),
    "b": pa.binary(),
    "tags": pa.list_(pa.string()),
    "s": pa.struct([("a", pa.string()), ("b", pa.string())]),
    "m": pa.map_(pa.string(), pa.string()),
    "bucket": pa.string(),
    "w": pa.int64(),
}
"""The row's columns in the typed table."""
COLUMNS = {name: "value_bucket" if name == "bucket" else name for name in ROW}
"""What the current table calls them: it has a column of that name itself."""
LONG = ("v", "b", "tags")
"""Those that a change may lack."""
RENAMED, MAP = "bucket", "m"
"""One more of these, whose name is another in the current table; and the map."""


def key_types(name: str) -> list[pa.DataType]:
    """Arrow's types of a key's columns."""
    return [_LIMITS[kind][0] for kind in KEYS[name]]


def pool(name: str, count: int) -> list[tuple[Any, ...]]:
    """Different keys of one kind, none of them null in all its columns."""
    kinds, random = KEYS[name], Random(f"{name} {count}")
    found: dict[tuple[Any, ...], None] = {}
    if len(kinds) == 1:
        found = dict.fromkeys((value,) for value in _LIMITS[kinds[0]][1])
        spare = (_spare(kinds[0], n) for n in range(count))
        found |= dict.fromkeys((value,) for value in spare)
    else:
        tries = 0
        while len(found) < count and (tries := tries + 1) < 50 * count:
            picked = tuple(random.choice([None, *_LIMITS[kind][1]]) for kind in kinds)
            if any(value is not None for value in picked):
                found[picked] = None
    keys = [*found]
    random.shuffle(keys)
    return keys[:count]


def _spare(kind: str, n: int) -> Any:
    """One of as many values as wanted."""
    day = _EPOCH + timedelta(days=n, microseconds=n)
    made: dict[str, Any] = {
        "text": f"k{n}",
        "long": 1000 + n,
        "decimal": Decimal(n + 2).scaleb(-9),
        "timestamp": day.replace(tzinfo=UTC),
        "date": day.date(),
        "binary": n.to_bytes(4, "big"),
    }
    return made[kind]


def row_of(number: int, *, has_maps: bool = True) -> dict[str, Any]:
    """The values of a row's columns; each number has its own, and some are null in places.

    Args:
        has_maps: Whether the map has a value in some rows.
    """
    random = Random(number)
    text = random.choice([None, "", f"v{number}", f"v{number}"])
    pick = random.choice
    made = {
        "v": text,
        "b": pick([None, b"", f"b{number}".encode()]),
        "tags": pick([None, [], [None], ["a", None], [None, "a"], [f"t{number}", None, "a"]]),
        "s": pick([None, {"a": f"s{number}", "b": None}, {"a": None, "b": f"s{number}"}]),
        "m": pick([None, [], [("k", None)], [("k", f"m{number}"), ("l", None)]]),
        "bucket": pick([None, f"u{number}"]),
        "w": pick([None, number, -number, 2**63 - 1]),
    }
    return made if has_maps else made | {"m": None}
