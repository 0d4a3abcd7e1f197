"""A key's text and its bucket, as Spark makes them; and a key's place among others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.folding.arrow.hashing import SEED, SLICE, Hashes, add_column, is_valid

_SPECIAL = r'["\\\x00-\x1f]'
_ESCAPED = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r"}
_ESCAPED |= {"\t": "\\t"}
ESCAPES = {n: f"\\u{n:04X}" for n in range(32)} | {ord(c): text for c, text in _ESCAPED.items()}
"""As Jackson writes them, which Spark's `to_json` uses."""
_DAYS = (-719_162, 2_932_896)
"""Of the years 1 to 9999, since 1970: of others Spark's texts have a sign."""
_DAY, _SECOND = 86_400_000_000, 1_000_000
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400
"""After so many days and years the calendar is the same again."""


def key_texts(columns: Sequence[pa.Array], kinds: Sequence[object]) -> pa.Array:
    """The canonical texts of keys: their columns as texts, in a list of JSON's.

    Args:
        columns: Those of the key, in its order.
        kinds: Their types, as Delta and Spark write them in JSON.
    """
    quoted = []
    for column, kind in zip(columns, kinds, strict=True):
        text = pc.binary_join_element_wise('"', text_of(column, str(kind)), '"', "")
        quoted.append(pc.fill_null(text, "null"))
    listed = quoted[0] if len(quoted) == 1 else pc.binary_join_element_wise(*quoted, ",")
    return pc.binary_join_element_wise("[", listed, "]", "")


def text_of(column: pa.Array, kind: str) -> pa.Array:
    """Values of a key's column as texts, as they stand in JSON."""
    if kind == "string":
        return _escaped(column)
    if kind == "binary":
        texts = [None if value is None else value.hex().upper() for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    if kind.startswith("decimal("):
        texts = [None if value is None else f"{value:f}" for value in column.to_pylist()]
        return pa.array(texts, pa.string())
    if kind == "date":
        days = column.cast(pa.int32())
        return column.cast(pa.string()) if _in_calendar(days, 1) else _texts(days, _day_text)
    if kind in ("timestamp", "timestamp_ntz"):
        micros = column.cast(pa.int64())
        if not _in_calendar(micros, _DAY):
            return _texts(micros, _time_text)
        return _trimmed(column.cast(pa.timestamp("us")).cast(pa.string()))
    return column.cast(pa.string())


def _trimmed(times: pa.Array) -> pa.Array:
    """Without zeros at the end of a second's fraction."""
    fraction = pc.replace_substring_regex(times, r"(\.\d*?)0+$", r"\1")
    return pc.replace_substring_regex(fraction, r"\.$", "")


def _in_calendar(numbers: pa.Array, day: int) -> bool:
    """Whether Arrow and Python know all of these days."""
    found = pc.min_max(numbers).as_py()
    if found["min"] is None:
        return True
    return bool(found["min"] >= _DAYS[0] * day and found["max"] < (_DAYS[1] + 1) * day)


def _texts(column: pa.Array, text: Callable[[Any], str]) -> pa.Array:
    return pa.array([None if v is None else text(v) for v in column.to_pylist()], pa.string())


def _day_text(day: int) -> str:
    """A day since 1970 as Spark writes it: of years outside of 0 to 9999 with a sign."""
    cycles, inside = divmod(day - _DAYS[0], _CYCLE_DAYS)
    found = date.fromordinal(inside + 1)
    year = found.year + _CYCLE_YEARS * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{found:%m-%d}"


def _time_text(micros: int) -> str:
    """Microseconds since 1970 as Spark writes them."""
    day, inside = divmod(micros, _DAY)
    second, fraction = divmod(inside, _SECOND)
    clock = f"{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
    text = f"{_day_text(day)} {clock}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def readable(data: bytes) -> str:
    """Bytes as Java's decoder reads them: U+FFFD in the place of what is no UTF-8.

    It takes as many bytes for one as could have begun a character, and a surrogate's three.
    """
    found, at = list[str](), 0
    while at < len(data):
        for size in range(4, 0, -1):
            with suppress(UnicodeDecodeError):
                found.append(data[at : at + size].decode())
                break
        else:
            size = _malformed(data[at : at + 4])
            found.append("\ufffd")
        at += size
    return "".join(found)


def _malformed(data: bytes) -> int:
    """How many bytes at a place that begins no character are one malformed sequence.

    As of Java's `sun.nio.cs.UTF_8`.
    """
    first, second, third = (*data[:3], 0, 0)[:3]
    if 0xE0 <= first <= 0xEF:
        low, high = 0xA0 if first == 0xE0 else 0x80, 0xBF
    elif 0xF0 <= first <= 0xF4:
        low, high = 0x90 if first == 0xF0 else 0x80, 0x8F if first == 0xF4 else 0xBF
    else:
        return 1
    if not low <= second <= high:
        return 1
    if third & 0xC0 != 0x80:
        return min(2, len(data))
    return 3


def _escaped(column: pa.Array) -> pa.Array:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        column = _texts(column.cast(pa.binary()), readable)
    special = pc.fill_null(pc.match_substring_regex(column, _SPECIAL), False)
    if not pc.any(special).as_py():
        return column
    texts = [
        None if t is None else t.translate(ESCAPES) for t in column.filter(special).to_pylist()
    ]
    return pc.replace_with_mask(column, special, pa.array(texts, pa.string()))


def buckets_of(texts: pa.Array, count: int) -> np.ndarray:
    """The bucket of each key.

    Args:
        texts: As `key_texts` gives them.
        count: How many buckets there are.
    """
    return np.mod(text_hashes(texts).view(np.int64), count)


def text_hashes(texts: pa.Array) -> Hashes:
    """A hash of each text."""
    found = np.full(len(texts), SEED, np.uint64)
    for n in range(0, len(texts), SLICE):
        add_column(found[n : n + SLICE], texts.slice(n, SLICE), "string")
    return found


def is_keyless(columns: Sequence[pa.Array]) -> np.ndarray:
    """Which keys are null in every column."""
    found = np.ones(len(columns[0]), bool)
    for column in columns:
        found &= ~is_valid(column)
    return found


def comparable(columns: Sequence[pa.Array]) -> np.ndarray:
    """Keys as NumPy compares them, and as Spark sorts them: null before all else.

    Args:
        columns: Those of the key, in its order; of a single one no value is null.
    """
    if len(columns) == 1 and (numbers := whole_numbers(columns[0])) is not None:
        return numbers
    listed = [_whole(column).to_pylist() for column in columns]
    if len(listed) == 1:
        return np.fromiter(listed[0], object, len(listed[0]))
    flagged = ([(v is not None, v if v is not None else 0) for v in values] for values in listed)
    return np.fromiter(zip(*flagged, strict=True), object, len(listed[0]))


def whole_numbers(column: pa.Array) -> np.ndarray | None:
    """Values without nulls as 64-bit integers that have their order; None for other types."""
    whole = _whole(column)
    if not pa.types.is_integer(whole.type):
        return None
    return np.asarray(whole).astype(np.int64, copy=False)


def _whole(column: pa.Array) -> pa.Array:
    """Booleans, dates and times as whole numbers: Python has none of the year 10000.

    And texts as bytes, which have the same order: a text may be no UTF-8.
    """
    if pa.types.is_string(column.type):
        return column.cast(pa.binary())
    if pa.types.is_boolean(column.type):
        return column.cast(pa.int8())
    if pa.types.is_date32(column.type):
        return column.cast(pa.int32())
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def ranked(*parts: pa.Array) -> list[np.ndarray]:
    """Values of one type as integers that have their order, across all parts; null the least."""
    if not any(part.null_count for part in parts):
        numbers = [found for part in parts if (found := whole_numbers(part)) is not None]
        if len(numbers) == len(parts):
            return numbers
    together = pa.concat_arrays(parts)
    ranks = np.asarray(pc.rank(together, "ascending", tiebreaker="dense")).astype(np.int64)
    ranks[~is_valid(together)] = 0
    return np.split(ranks, np.cumsum([len(part) for part in parts])[:-1])
