"""Whether a value of any type has a text: the one that Spark's CAST makes of it, in UTC."""

from __future__ import annotations

import math
from contextlib import suppress
from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.folding.arrow.keys import text_of

_PLAIN = (Decimal("1E-3"), Decimal("1E7"))
"""From which number on (inclusive), and up to which one (exclusive), Java writes no exponent."""
_MOST_DIGITS = {"float": 9, "double": 17}
_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def is_text(column: pa.Array, kind: str, text: str) -> np.ndarray:
    """Which values of a column have a text; null has none.

    Args:
        kind: The column's type, as Delta and Spark write it in JSON; none of several values.
    """
    if kind in _MOST_DIGITS:
        return _is_number(column, kind, text)
    if kind in ("string", "binary"):
        found = pc.equal(column.cast(pa.binary()), text.encode())
    else:
        found = pc.equal(text_of(column, kind), text)
    return np.asarray(pc.fill_null(found, False))


def _is_number(column: pa.Array, kind: str, text: str) -> np.ndarray:
    """Floats are compared as numbers: of one number, versions of Java write different digits."""
    if (number := _number(text, _MOST_DIGITS[kind])) is None:
        return np.zeros(len(column), bool)
    values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    wanted = values.dtype.type(number)
    is_it = (values == wanted) & (np.signbit(values) == np.signbit(wanted))
    if math.isnan(number):
        is_it = np.isnan(values)
    found: np.ndarray = is_it & np.asarray(pc.is_valid(column))
    return found


def _number(text: str, most_digits: int) -> float | None:
    """The number that a text is Java's of; None for none."""
    if text in _NAMED:
        return _NAMED[text]
    with suppress(InvalidOperation, ValueError, OverflowError):
        number = Decimal(text)
        if number.is_finite() and len(number.as_tuple().digits) <= most_digits + 1:
            return float(number) if java_text(number) == text else None
    return None


def java_text(number: Decimal) -> str:
    """A number as Java's `Double.toString` writes it: one digit behind the point at least."""
    sign = "-" if number.is_signed() else ""
    if not number:
        return f"{sign}0.0"
    size = abs(number).normalize()
    if _PLAIN[0] <= size < _PLAIN[1]:
        text = f"{size:f}"
        return f"{sign}{text}" if "." in text else f"{sign}{text}.0"
    digits = "".join(map(str, size.as_tuple().digits))
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{size.adjusted()}"
