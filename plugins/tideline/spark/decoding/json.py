"""JSON, by Spark's own `from_json`, whose leniency is found out.

`from_json` accepts text behind the document. So each document is read as the first of two items,
and the second holds a name that nobody can foresee: if it is not the second, or the last, then the
document did not end where it should.

    {"NONCE": [DOCUMENT, {"NONCE": 1}]}

Duplicate names, which `from_json` lets win in turn, are what `parse_json` refuses. Numbers beyond a
double's whole ones are looked for in the text. All second looks are taken only where they matter.

A number or an object in a string's place becomes its text, and a number in a time's place counts
as seconds since 1970: Spark does not tell.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DoubleType, MapType, StructType

from tideline.model.decoding import PartPlan
from tideline.rules.schemas.json_schema import read_json
from tideline.rules.schemas.shapes import Record, column_type, struct_type
from tideline.spark.decoding.formats import ERROR, ERROR_CLASS, FIELDS, PAYLOAD
from tideline.spark.decoding.types import spark_type

_READ, _TEXT, _FOUND, _ALONE = "_read", "_text", "_found", "_alone"
_WHOLE = 2.0**53
"""From here on, a double skips whole numbers."""
_PARSED_BYTES = 4 * 2**20
"""Of longer documents only the outermost names are compared: a variant holds 16 MiB."""
_LONG_NUMBER = r"(^|[^\d.eE+])\d{%d,}([^\d.eE]|$)"


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode JSON; what comes and goes is said in `formats`."""
    shape = read_json(part.reader.text)
    nonce = f"tideline_{secrets.token_hex(8)}"
    columns = [(c.name, c.type) for c in part.reader.columns]
    item = _item_type(shape, nonce)
    read = rows.withColumn(_TEXT, _document(shape))
    read = read.withColumn(_READ, _from_json(item, nonce))
    items = F.col(_READ).getField(nonce)
    wanted = spark_type(struct_type([*columns, (nonce, "integer")]))
    if wanted != spark_type(item):
        items = items.cast(ArrayType(wanted))  # by place: fields get the table's names
    first, second = F.get(items, F.lit(0)), F.get(items, F.lit(1))
    ends = (F.size(items) == 2) & (second[nonce] == 1)
    found = F.when(F.col(_READ)[_bad(nonce)].isNull() & ends, first)
    read = read.withColumns({_FOUND: found, _ALONE: F.coalesce(ends, F.lit(False))})
    name = _class_of(shape, columns)
    classified = read.withColumn(ERROR_CLASS, F.when(F.col(PAYLOAD).isNotNull(), name))
    is_good = F.col(PAYLOAD).isNotNull() & F.col(ERROR_CLASS).isNull()
    fields = F.struct(*(F.col(_FOUND)[name] for name, _ in columns))
    said = {FIELDS: F.when(is_good, fields), ERROR: _said()}
    return classified.withColumns(said).drop(_READ, _TEXT, _FOUND, _ALONE)


def _document(shape: Record) -> Column:
    """The document as text; null where its bytes are none."""
    text = F.col(PAYLOAD).cast("string")
    text = F.when(F.is_valid_utf8(text), text)
    return F.concat(F.lit('{"value":'), text, F.lit("}")) if shape.wrapped else text


def _bad(nonce: str) -> str:
    return f"{nonce}_bad"


def _item_type(shape: Record, nonce: str) -> object:
    """A document's type, in its own names, and the name that marks its end."""
    fields = [(f.name, column_type(f.shape, own_names=True)) for f in shape.fields]
    return struct_type([*fields, (nonce, "integer")])


def _from_json(item: object, nonce: str) -> Column:
    items = {"type": "array", "elementType": item, "containsNull": True}
    schema = spark_type(struct_type([(nonce, items), (_bad(nonce), "string")]))
    assert isinstance(schema, StructType)
    text = F.concat(F.lit(f'{{"{nonce}":['), F.col(_TEXT), F.lit(f',{{"{nonce}":1}}]}}'))
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": _bad(nonce),
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
    }
    return F.from_json(text, schema, options)


def _class_of(shape: Record, columns: Iterable[tuple[str, object]]) -> Column:
    found, text = F.col(_FOUND), F.col(_TEXT)
    parsed = F.try_parse_json(text)
    kind = F.when(parsed.isNotNull(), F.schema_of_variant(parsed))
    refused = (
        F.when(text.isNull(), "invalid_utf8")
        .when(F.col(_ALONE) & _has_number(19), "out_of_range")
        .when(F.col(_ALONE), "type_mismatch")
        .when(parsed.isNull(), "malformed")
        .when(kind.startswith("OBJECT"), "trailing_bytes")
        .otherwise("type_mismatch")
    )
    types = [(found[name], spark_type(type_)) for name, type_ in columns]
    checks = (
        F.when(_has_duplicates(), "duplicate_field")
        .when(_has_strange_names(shape, [column for column, _ in types]), "type_mismatch")
        .when(_loses_numbers(types), "out_of_range")
    )
    return F.when(found.isNull(), refused).otherwise(checks)


def _has_duplicates() -> Column:
    text = F.col(_TEXT)
    keys = F.json_object_keys(text)
    is_long = F.length(PAYLOAD) > _PARSED_BYTES
    outermost = F.size(F.array_distinct(keys)) < F.size(keys)
    return F.when(is_long, outermost).otherwise(F.try_parse_json(text).isNull())


def _has_strange_names(shape: Record, columns: list[Column]) -> Column:
    """Whether a name is forbidden, or stands for a field's that is missing but for its case.

    The latter is looked for only where a field has no value.
    """
    names = [f.name for f in shape.fields]
    keys = F.json_object_keys(F.col(_TEXT))
    if shape.closed or shape.wrapped:
        return F.exists(keys, lambda key: ~key.isin(names))
    if not names:
        return F.lit(False)
    lower = [name.lower() for name in names]
    exact = F.transform(F.filter(keys, lambda key: key.isin(names)), F.lower)
    differs = F.exists(
        keys,
        lambda key: (
            ~key.isin(names) & F.lower(key).isin(lower) & ~F.array_contains(exact, F.lower(key))
        ),
    )
    return F.when(reduce(or_, (c.isNull() for c in columns)), differs).otherwise(F.lit(False))


def _loses_numbers(columns: list[tuple[Column, DataType]]) -> Column:
    """Whether a double stands for a number that it is not: beyond its range, or rounded.

    Digits behind the point are rounded everywhere; whole numbers are somebody's ids.
    """
    infinite = _any_double(columns, lambda d: F.abs(d) == float("inf"))
    skipped = _any_double(columns, lambda d: (F.abs(d) >= _WHOLE) & ~_stands_in_text(d))
    large = _any_double(columns, lambda d: F.abs(d) >= _WHOLE)
    if infinite is None or skipped is None or large is None:
        return F.lit(False)
    return F.when(large, infinite | (_has_number(16) & skipped)).otherwise(F.lit(False))


def _stands_in_text(number: Column) -> Column:
    """Whether a whole number stands in the document digit by digit."""
    digits = F.abs(number).try_cast("decimal(38,0)").cast("string")
    return F.coalesce(F.contains(F.col(_TEXT), digits), ~_has_number(39))


def _has_number(digits: int) -> Column:
    """Whether a whole number of so many digits stands in the document, or in a string of it."""
    return F.col(_TEXT).rlike(_LONG_NUMBER % digits)


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


def _said() -> Column:
    name = F.col(ERROR_CLASS)
    return (
        F.when(name == "invalid_utf8", "the bytes are no UTF-8")
        .when(name == "malformed", "not a JSON document")
        .when(name == "trailing_bytes", "text follows the JSON document")
        .when(name == "duplicate_field", "an object has a name twice")
        .when(name == "out_of_range", "a number does not fit its column without loss")
        .when(
            F.col(_FOUND).isNotNull(),
            "a name that the schema forbids, or has in another case",
        )
        .when(name == "type_mismatch", "a value is not of its field's type")
    )
