"""Which members a JSON document has, beside those that were read.

Names end with a quote, and a colon follows. Counting these two in the text takes a fraction of what
parsing takes. Strings may hold both as well, so the count is never too low. If it is no higher than
the number of members that were read, then the document has no name twice, and none that is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

SPACES = " \t\r\n"
"""What JSON allows between its parts."""


def most_members(text: Column) -> Column:
    """How many members a document has at most, at any depth; null where space precedes a colon.

    Args:
        text: A valid document.
    """
    is_spaced = reduce(or_, (F.contains(text, F.lit(f"{space}:")) for space in SPACES))
    without = F.replace(text, F.lit('":'), F.lit('"'))
    return F.when(~is_spaced, F.octet_length(text) - F.octet_length(without))


def members_of(columns: Iterable[Column]) -> Column:
    """How many columns have a value."""
    return _sum([F.when(column.isNotNull(), 1).otherwise(0) for column in columns])


def members_inside(columns: Iterable[tuple[Column, DataType]]) -> Column:
    """How many members were read inside the values of columns, at any depth.

    Of a name that stands twice in one object, at most one counts.
    """
    return _sum([c for column, kind in columns if (c := _inside(column, kind)) is not None])


def _inside(column: Column, kind: DataType) -> Column | None:
    """Members inside a value; None where its type holds none."""
    if not _holds_members(kind):
        return None
    if isinstance(kind, StructType):
        fields = [(column[f.name], f.dataType) for f in kind.fields]
        return members_of(field for field, _ in fields) + members_inside(fields)
    if isinstance(kind, MapType):
        names = F.size(F.array_distinct(F.map_keys(column)))  # Spark's reader keeps both of two
        inner = _inside(F.map_values(column), ArrayType(kind.valueType))
        return F.coalesce(names if inner is None else names + inner, F.lit(0))
    assert isinstance(kind, ArrayType)
    item_kind = kind.elementType

    def add(count: Column, item: Column) -> Column:
        found = _inside(item, item_kind)
        assert found is not None
        return count + found

    return F.coalesce(F.aggregate(column, F.lit(0), add), F.lit(0))


def _holds_members(kind: DataType) -> bool:
    if isinstance(kind, ArrayType):
        return _holds_members(kind.elementType)
    return isinstance(kind, StructType | MapType)


def _sum(terms: Sequence[Column]) -> Column:
    """By halves: Spark walks through expressions recursively."""
    if len(terms) < 2:
        return terms[0] if terms else F.lit(0)
    half = len(terms) // 2
    return _sum(terms[:half]) + _sum(terms[half:])
