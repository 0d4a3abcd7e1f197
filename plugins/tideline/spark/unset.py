"""What Debezium writes for a value that it was not told, in a column that is never null.

PostgreSQL tells the key alone of a deleted row (`REPLICA IDENTITY DEFAULT`). Debezium gives the
others null; in a column that is never null, the column's default, or else the fixed value of its
converter (`JdbcValueConverters`, `PostgresValueConverter`): a zero, an empty text, 1970.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F

from tideline.model.placeholders import NO_TEXT, NOT_TOLD

_FIXED = {
    "date": ("DATE '1970-01-01'",),
    "timestamp": ("timestamp_seconds(0)",),
    "timestamp_ntz": ("TIMESTAMP_NTZ '1970-01-01 00:00:00'",),
}
"""As literals of Spark's, by the column's type; 0 of any other that has no `NOT_TOLD`."""
_CALENDAR = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""Microseconds since 1970 of the years 1 to 9999; a record with another time is no row."""
_DAY = 86_400_000_000
_DIGITS = 38


def is_unset(value: Column, kind: object, defaults: Iterable[object] = ()) -> Column:
    """Whether a value is null, or may stand for one that was not told.

    Args:
        value: Of a typed column, or of a struct inside of one.
        kind: The column's type, as Delta and Spark write it in JSON.
        defaults: The column's defaults, as schemas write them.
    """
    if isinstance(kind, Mapping) and kind["type"] == "struct":
        parts = (is_unset(value[field["name"]], field["type"]) for field in kind["fields"])
        return value.isNull() | reduce(and_, parts, F.lit(True))
    if isinstance(kind, Mapping):
        return value.isNull() | (F.size(value) == 0)
    fixed = [F.lit(one) for one in NOT_TOLD.get(str(kind), ())]
    fixed = fixed or [F.expr(text) for text in _FIXED.get(str(kind), ("0",))]
    known = (*fixed, *(one for default in defaults for one in _literals(str(kind), default)))
    same = reduce(or_, (value == one for one in known))
    return value.isNull() | (same | value.rlike(NO_TEXT) if kind == "string" else same)


def _literals(kind: str, default: object) -> list[Column]:
    """What a schema's default may be in a typed column; nothing where no column can hold it.

    Whoever writes a schema chooses the default: one that Spark cannot make would stop all decoding.
    """
    if isinstance(default, str):
        return _of_text(kind, default)
    if kind == "boolean":
        return [F.lit(default)] if isinstance(default, bool) else []
    if isinstance(default, bool) or not isinstance(default, int | float):
        return []
    if kind == "double":
        return [F.lit(float(default))]
    if isinstance(default, float):
        return []
    if kind == "date":
        is_near = _CALENDAR[0] <= default * _DAY <= _CALENDAR[1]
        return [F.date_from_unix_date(F.lit(default))] if is_near else []
    if kind in ("timestamp", "timestamp_ntz"):  # in milliseconds, or in microseconds
        near = [n for n in (default * 1000, default) if _CALENDAR[0] <= n <= _CALENDAR[1]]
        return [F.timestamp_micros(F.lit(n)).cast(kind) for n in near]
    if kind in ("long", "integer"):
        return [F.lit(default)] if -(2**63) <= default < 2**63 else []
    return _of_number(kind, default, 0) if kind.startswith("decimal(") else []


def _of_text(kind: str, default: str) -> list[Column]:
    """Bytes stand in Base64 in Connect's JSON, and as characters up to 255 in Avro's."""
    if kind == "string":
        return [F.lit(default)]
    if kind in ("timestamp", "timestamp_ntz"):
        return [F.try_to_timestamp(F.lit(default)).cast(kind)]
    found = []
    for read in (_from_base64, lambda text: text.encode("latin-1")):
        with suppress(ValueError):  # of `binascii` as well
            found.append(read(default))
    if kind == "binary":
        return [F.lit(data) for data in found]
    if not kind.startswith("decimal("):
        return []
    scale = int(kind.rstrip(")").split(",")[1])
    numbers = (int.from_bytes(data, "big", signed=True) for data in found)
    return [one for number in numbers for one in _of_number(kind, number, scale)]


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _of_number(kind: str, unscaled: int, scale: int) -> list[Column]:
    """A decimal, where the column can hold all of its digits."""
    digits = str(abs(unscaled))
    if len(digits) > _DIGITS:
        return []
    number = Decimal((int(unscaled < 0), tuple(map(int, digits)), -scale))
    return [F.lit(f"{number:f}").try_cast(kind)]
