"""A record's key as a text: what Spark's `to_json` makes of its columns with exact times."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.folding.arrow.castable import java_text
from tideline.folding.arrow.keys import ESCAPES, text_of

Write = Callable[[Any], str]
_PLAIN = ("long", "integer", "short", "byte", "boolean")


def record_keys(
    columns: Sequence[pa.Array], names: Sequence[str], kinds: Sequence[object]
) -> pa.Array:
    """The texts of records' keys: those of two keys differ where the keys do.

    Args:
        columns: Those of the record's key.
        names: Their names; a column that is null is left out.
        kinds: Their types, as Delta and Spark write them in JSON.
    """
    parts = []
    for column, name, kind in zip(columns, names, kinds, strict=True):
        named = pc.binary_join_element_wise(f",{_quoted(name)}:", _texts(column, kind), "")
        parts.append(pc.fill_null(named, ""))
    listed = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "")
    return pc.binary_join_element_wise("{", pc.utf8_ltrim(listed, ","), "}", "")


def _texts(column: pa.Array, kind: object) -> pa.Array:
    """The values of a column as they stand in JSON; null for null."""
    if kind in _PLAIN:
        return column.cast(pa.string())
    if kind in ("string", "date"):
        return _in_quotes(text_of(column, str(kind)))
    if kind in ("timestamp", "timestamp_ntz"):
        text = column.cast(pa.timestamp("us")).cast(pa.string())
        return _in_quotes(pc.replace_substring(text, " ", "T"), "Z" if kind == "timestamp" else "")
    write = _writer(kind)
    texts = [None if value is None else write(value) for value in column.to_pylist()]
    return pa.array(texts, pa.string())


def _in_quotes(texts: pa.Array, end: str = "") -> pa.Array:
    return pc.binary_join_element_wise('"', texts, f'{end}"', "")


def _writer(kind: object) -> Write:
    """What writes one value that is not null."""
    if isinstance(kind, Mapping):
        return _nested_writer(kind)
    if str(kind).startswith("decimal("):
        return str  # as `BigDecimal.toString`
    flat: dict[str, Callable[..., str]] = {
        "string": _quoted,
        "boolean": json.dumps,
        "binary": lambda value: f'"{base64.b64encode(value).decode()}"',
        "date": lambda value: f'"{value.isoformat()}"',
        "double": _of_float,
        "float": lambda value: _of_float(float(str(np.float32(value)))),
        "timestamp": partial(_of_time, end="Z"),
        "timestamp_ntz": _of_time,
    }
    return flat.get(str(kind), str)


def _nested_writer(kind: Mapping[str, object]) -> Write:
    if kind["type"] == "struct":
        fields = kind["fields"]
        assert isinstance(fields, list | tuple)
        of = {f["name"]: _writer(f["type"]) for f in fields}
        return lambda value: _object(
            (name, write(value[name])) for name, write in of.items() if value[name] is not None
        )
    if kind["type"] == "array":
        item = _or_null(_writer(kind["elementType"]))
        return lambda value: f"[{','.join(map(item, value))}]"
    item = _or_null(_writer(kind["valueType"]))
    return lambda value: _object((str(k), item(v)) for k, v in value)


def _object(pairs: Iterable[tuple[str, str]]) -> str:
    return f"{{{','.join(f'{_quoted(name)}:{text}' for name, text in pairs)}}}"


def _or_null(write: Write) -> Write:
    return lambda value: "null" if value is None else write(value)


def _quoted(text: str) -> str:
    return f'"{text.translate(ESCAPES)}"'


def _of_time(value: datetime, end: str = "") -> str:
    return f'"{value.replace(tzinfo=None).isoformat(timespec="microseconds")}{end}"'


def _of_float(value: float) -> str:
    """As `Double.toString`; what is no number stands in quotes."""
    if value != value or value in (float("inf"), float("-inf")):
        return '"NaN"' if value != value else f'"{"-" if value < 0 else ""}Infinity"'
    return java_text(Decimal(repr(value)))
