"""What Debezium writes for a value that it was not told, in a column that is never null.

PostgreSQL tells the key alone of a deleted row (`REPLICA IDENTITY DEFAULT`). Debezium gives the
others null; in a column that is never null, the column's default, or else the fixed value of its
converter (`JdbcValueConverters`, `PostgresValueConverter`): a zero, an empty text, 1970.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import reduce
from operator import and_, or_

from pyspark.sql import Column
from pyspark.sql import functions as F

_FIXED = {
    "string": ("''", "'{}'", "'1970-01-01T00:00:00Z'", "'00:00:00Z'", "'P0Y0M0DT0H0M0S'"),
    "boolean": ("false",),
    "binary": ("X''", "X'00'"),
    "date": ("DATE '1970-01-01'",),
    "timestamp": ("timestamp_seconds(0)",),
    "timestamp_ntz": ("TIMESTAMP_NTZ '1970-01-01 00:00:00'",),
}
"""As literals of Spark's, by the column's type; 0 of any other."""


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
    fixed = [F.expr(text) for text in _FIXED.get(str(kind), ("0",))]
    known = (*fixed, *(one for default in defaults for one in _literals(str(kind), default)))
    return value.isNull() | reduce(or_, (value == one for one in known))


def _literals(kind: str, default: object) -> list[Column]:
    """What a schema's default may be in a typed column; nothing where it is of another type."""
    if isinstance(default, str):
        return _of_text(kind, default)
    is_number = isinstance(default, int | float) and not isinstance(default, bool)
    if kind == "boolean":
        return [F.lit(default)] if isinstance(default, bool) else []
    if kind == "date" and isinstance(default, int):
        return [F.date_from_unix_date(F.lit(default))]
    if kind in ("timestamp", "timestamp_ntz") and isinstance(default, int):
        times = (F.timestamp_millis(F.lit(default)), F.timestamp_micros(F.lit(default)))
        return [time.cast(kind) for time in times]
    is_wanted = kind in ("long", "integer", "double") or kind.startswith("decimal")
    return [F.lit(default)] if is_number and is_wanted else []


def _of_text(kind: str, default: str) -> list[Column]:
    """Bytes stand in Base64 in Connect's JSON, and as characters up to 255 in Avro's."""
    if kind == "string":
        return [F.lit(default)]
    if kind in ("timestamp", "timestamp_ntz"):
        return [F.try_to_timestamp(F.lit(default)).cast(kind)]
    found = []
    for read in (base64.b64decode, lambda text: text.encode("latin-1")):
        try:
            found.append(read(default))
        except (ValueError, binascii.Error):
            continue
    if kind == "binary":
        return [F.lit(data) for data in found]
    if not kind.startswith("decimal("):
        return []
    scale = int(kind.rstrip(")").split(",")[1])
    numbers = [Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale) for data in found]
    return [F.lit(number) for number in numbers if len(number.as_tuple().digits) <= _DIGITS]


_DIGITS = 38
