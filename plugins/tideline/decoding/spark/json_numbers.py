"""Numbers of a JSON document that their columns do not hold as they are.

Digits behind the point are rounded everywhere; whole numbers are somebody's ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, MapType, StructType, VariantType

Columns = list[tuple[Column, DataType]]

_WHOLE = 2.0**53
"""From here on, a double skips whole numbers."""
_LONG_NUMBER = r"(^|[^\d.eE+])\d{%d,}([^\d.eE]|$)"
_DIGITS = r"\d{39,}"
"""More than a VARIANT's decimals have."""
_LARGE_EXPONENT = r"[eE]\+?0*\d{3,}"
_INFINITE = r'"-?Infinity"'


def loses_numbers(text: Column, columns: Columns) -> Column:
    """Whether a column holds another number than the document: beyond its range, or rounded.

    Args:
        text: The document.
        columns: What was read of it.
    """
    return _rounds_doubles(text, columns) | _rounds_variants(text, columns)


def has_number(text: Column, digits: int) -> Column:
    """Whether a whole number of so many digits stands in a document, or in a string of it."""
    return text.rlike(_LONG_NUMBER % digits)


def _rounds_doubles(text: Column, columns: Columns) -> Column:
    def is_skipped(double: Column) -> Column:
        return (F.abs(double) >= _WHOLE) & ~_stands_in(text, double)

    infinite = _any_double(columns, lambda d: F.abs(d) == float("inf"))
    skipped = _any_double(columns, is_skipped)
    large = _any_double(columns, lambda d: F.abs(d) >= _WHOLE)
    if infinite is None or skipped is None or large is None:
        return F.lit(False)
    return F.when(large, infinite | (has_number(text, 16) & skipped)).otherwise(F.lit(False))


def _stands_in(text: Column, number: Column) -> Column:
    """Whether a whole number stands in the document digit by digit."""
    digits = F.abs(number).try_cast("decimal(38,0)").cast("string")
    return F.coalesce(F.contains(text, digits), ~has_number(text, 39))


def _rounds_variants(text: Column, columns: Columns) -> Column:
    """A number with more digits becomes a double there, which `to_json` writes in another way.

    Digits in a string stay as they are, and so does a string that says Infinity.
    """
    variants = [F.to_json(column) for column, kind in columns if isinstance(kind, VariantType)]
    if not variants:
        return F.lit(False)
    told = F.concat_ws(" ", *variants)
    digits = F.regexp_extract_all(text, F.lit(_DIGITS), F.lit(0))
    said, heard = (F.regexp_count(where, F.lit(_INFINITE)) for where in (text, told))
    is_rounded = F.exists(digits, lambda found: ~F.contains(told, found))
    return (
        F.when(text.rlike(_DIGITS), is_rounded)
        .when(text.rlike(_LARGE_EXPONENT), heard > said)
        .otherwise(F.lit(False))
    )


def _any_double(
    columns: Iterable[tuple[Column, DataType]], test: Callable[[Column], Column]
) -> Column | None:
    """Whether any double in columns passes a test; None where they hold no doubles."""
    tests = [t for column, kind in columns if (t := _double_in(column, kind, test)) is not None]
    return reduce(or_, tests) if tests else None


def _double_in(column: Column, kind: DataType, test: Callable[[Column], Column]) -> Column | None:
    if isinstance(kind, DoubleType):
        return F.coalesce(test(column), F.lit(False))
    if isinstance(kind, StructType):
        return _any_double(((column[f.name], f.dataType) for f in kind.fields), test)
    if isinstance(kind, MapType):
        column, kind = F.map_values(column), ArrayType(kind.valueType)
    if not isinstance(kind, ArrayType):
        return None
    inner = kind.elementType
    if _double_in(F.lit(None), inner, test) is None:
        return None

    def of_item(item: Column) -> Column:
        found = _double_in(item, inner, test)
        assert found is not None
        return found

    return F.coalesce(F.exists(column, of_item), F.lit(False))
