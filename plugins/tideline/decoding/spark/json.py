"""JSON, by Spark's own `from_json`, whose leniency is found out.

`from_json` accepts text behind the document. So each document gets one more member, behind its last
one, with a name that nobody can foresee. If the document does not have it, then it ends earlier
than its text.

    {"id": 1, "NONCE": 1}

Duplicate names, which `from_json` lets win in turn, are what `parse_json` refuses. It parses once
more, so it is asked only where the text has more members than were read. Names end with a quote,
and a colon follows; counting these two in the text takes a fraction of what parsing takes. Strings
may hold both as well, so the count is never too low. Numbers beyond a double's whole ones are
looked for in the text. All second looks are taken only where they matter.

A column that is used more than once is one of its own: Spark evaluates expressions anew inside of
`CASE` and below `from_json`.

A number or an object in a string's place becomes its text, and a number in a time's place counts
as seconds since 1970: Spark does not tell.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType, VariantType

from tideline.decoding.schemas.json_schema import read_json
from tideline.decoding.schemas.shapes import Record, column_type, struct_type
from tideline.decoding.spark.fields import ERROR, ERROR_CLASS, FIELDS, PAYLOAD, spark_type
from tideline.decoding.spark.json_numbers import has_number, loses_numbers
from tideline.model.decoding import PartPlan

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


_TEXT, _TRIMMED, _OPEN, _READ = "_text", "_trimmed", "_open", "_read"
_FOUND, _ALONE, _MEMBERS, _NAMES = "_found", "_alone", "_members", "_names"
_OWN = (_TEXT, _TRIMMED, _OPEN, _READ, _FOUND, _ALONE, _MEMBERS, _NAMES)
_NAMED, _CORRUPT = "columnNameOfCorruptRecord", "_corrupt"
_OPTIONS = {
    "mode": "PERMISSIVE",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_HIGH, _LOW = r"\\u[dD][89abAB][0-9a-fA-F]{2}", r"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_HALF = f"{_HIGH}(?!{_LOW})|(?<!{_HIGH}){_LOW}"
_PARSED_BYTES = 4 * 2**20
"""Of longer documents only the outermost names are compared: a variant holds 16 MiB."""


def decode(rows: DataFrame, part: PartPlan) -> DataFrame:
    """Decode JSON; what comes and goes is said in `formats`."""
    shape = read_json(part.reader.text)
    nonce = f"tideline_{secrets.token_hex(8)}"
    columns = [(c.name, c.type) for c in part.reader.columns]
    read = _read(rows.withColumn(_TEXT, _document(shape)), shape, nonce)
    row, alone = F.col(_READ), F.coalesce(F.col(_READ)[nonce] == 1, F.lit(False))
    own, wanted = _type(shape, nonce), spark_type(struct_type([*columns, *_marks(nonce)]))
    renamed = row if wanted == own else row.cast(wanted)  # by place: the table's names
    found = F.when(row[_bad(nonce)].isNull() & alone, renamed)
    read = read.withColumns({_FOUND: found, _ALONE: alone})
    types = [(F.col(_FOUND)[name], spark_type(type_)) for name, type_ in columns]
    named = _with_names(read, types)
    classified = named.withColumn(
        ERROR_CLASS, F.when(F.col(PAYLOAD).isNotNull(), _class_of(shape, types))
    )
    is_good = F.col(PAYLOAD).isNotNull() & F.col(ERROR_CLASS).isNull()
    fields = F.struct(*(F.col(_FOUND)[name] for name, _ in columns))
    said = {FIELDS: F.when(is_good, fields), ERROR: _said()}
    return classified.withColumns(said).drop(*_OWN)


def _document(shape: Record) -> Column:
    """The document as text; null where its bytes are none."""
    text = F.col(PAYLOAD).cast("string")
    text = F.when(F.is_valid_utf8(text), text)
    return F.concat(F.lit('{"value":'), text, F.lit("}")) if shape.wrapped else text


def _bad(nonce: str) -> str:
    return f"{nonce}_bad"


def _marks(nonce: str) -> list[tuple[str, str]]:
    """What is read beside the document: the member behind its last one, and what cannot be read."""
    return [(nonce, "integer"), (_bad(nonce), "string")]


def _type(shape: Record, nonce: str) -> StructType:
    """A document's type, in its own names, and the marks."""
    fields = [(f.name, column_type(f.shape, own_names=True)) for f in shape.fields]
    found = spark_type(struct_type([*fields, *_marks(nonce)]))
    assert isinstance(found, StructType)
    return found


def _read(rows: DataFrame, shape: Record, nonce: str) -> DataFrame:
    """Add what `from_json` reads; nulls where the text does not end as an object does.

    The object's end is replaced. An object without members needs no comma.
    """
    data = F.col(_TRIMMED).cast("binary")
    is_open = F.endswith(F.col(_TRIMMED), F.lit("}"))
    cut = F.substring(data, F.lit(1), F.octet_length(data) - 1).cast("string")
    is_empty = F.endswith(F.col(_OPEN), F.lit("{"))
    comma = F.when(is_empty, "").otherwise(",")
    text = F.concat(F.col(_OPEN), comma, F.lit(f'"{nonce}":1}}'))
    options = _OPTIONS | {_NAMED: _bad(nonce)}
    trimmed = rows.withColumn(_TRIMMED, _trimmed(F.col(_TEXT)))
    opened = trimmed.withColumn(_OPEN, F.when(is_open, _trimmed(cut)))
    return opened.withColumn(_READ, F.from_json(text, _type(shape, nonce), options))


def _trimmed(text: Column) -> Column:
    """Without spaces at the end. Spark takes its time for that, so they are looked for first."""
    is_spaced = reduce(or_, (F.endswith(text, F.lit(space)) for space in SPACES))
    return F.when(is_spaced, F.rtrim(text, F.lit(SPACES))).otherwise(text)


def _with_names(rows: DataFrame, columns: list[tuple[Column, DataType]]) -> DataFrame:
    """Add how many outermost members a good document has at most, and their names.

    The names are null where each member was read: then each is there once, and none is unknown.
    """
    counted = rows.withColumn(_MEMBERS, most_members(F.col(_TEXT)) - members_inside(columns))
    are_read = F.col(_MEMBERS) == members_of(column for column, _ in columns)
    has_others = F.col(_FOUND).isNotNull() & ~F.coalesce(are_read, F.lit(False))
    return counted.withColumn(_NAMES, F.when(has_others, F.json_object_keys(F.col(_TEXT))))


def _class_of(shape: Record, columns: list[tuple[Column, DataType]]) -> Column:
    found, text = F.col(_FOUND), F.col(_TEXT)
    if any(isinstance(kind, VariantType) for _, kind in columns):
        is_more = F.col(_NAMES).isNotNull() & (F.size(F.col(_NAMES)) != 1)
        checks = F.when(is_more, "trailing_bytes")
        checks = checks.when(_has_half_a_character(), "invalid_utf8")
        checks = checks.when(loses_numbers(text, columns), "out_of_range")
        return F.when(found.isNull(), _class_of_no_variant()).otherwise(checks)
    parsed = F.try_parse_json(text)
    kind = F.when(parsed.isNotNull(), F.schema_of_variant(parsed))
    refused = (
        F.when(text.isNull(), "invalid_utf8")
        .when(F.col(_ALONE) & F.json_object_keys(text).isNull(), "malformed")  # `from_json` goes on
        .when(F.col(_ALONE) & has_number(text, 19), "out_of_range")
        .when(F.col(_ALONE), "type_mismatch")
        .when(parsed.isNull(), "malformed")
        .when(kind.startswith("OBJECT"), "trailing_bytes")
        .otherwise("type_mismatch")
    )
    checks = (
        F.when(_has_half_a_character(), "invalid_utf8")
        .when(_has_duplicates(), "duplicate_field")
        .when(_has_strange_names(shape, [column for column, _ in columns]), "type_mismatch")
        .when(loses_numbers(text, columns), "out_of_range")
    )
    return F.when(found.isNull(), refused).otherwise(checks)


def _class_of_no_variant() -> Column:
    """Why a document is no VARIANT; `from_json` makes none of one with a name twice, either."""
    text = F.col(_TEXT)
    as_text = F.from_json(text, f"value string, {_CORRUPT} string", _OPTIONS | {_NAMED: _CORRUPT})
    return (
        F.when(text.isNull(), "invalid_utf8")
        .when(as_text[_CORRUPT].isNotNull(), "malformed")
        .when(F.size(F.json_object_keys(text)) > 1, "trailing_bytes")
        .when(F.length(PAYLOAD) > _PARSED_BYTES, "too_large")
        .otherwise("duplicate_field")
    )


def _has_half_a_character() -> Column:
    """Whether an escape names one of two surrogates without the other: it would become a `?`."""
    text = F.col(_TEXT)
    without = F.replace(text, F.lit("\\\\"), F.lit("/"))  # a backslash that is meant as one
    return F.when(F.contains(text, F.lit("\\u")), without.rlike(_HALF)).otherwise(F.lit(False))


def _has_duplicates() -> Column:
    names = F.col(_NAMES)
    is_long = F.length(PAYLOAD) > _PARSED_BYTES
    are_others_read = F.coalesce(F.col(_MEMBERS) == F.size(names), F.lit(False))
    return (
        F.when(names.isNull(), F.lit(False))
        .when(F.size(F.array_distinct(names)) < F.size(names), F.lit(True))
        .when(is_long | are_others_read, F.lit(False))
        .otherwise(F.try_parse_json(F.col(_TEXT)).isNull())
    )


def _has_strange_names(shape: Record, columns: list[Column]) -> Column:
    """Whether a name is forbidden, or stands for a field's that is missing but for its case.

    The latter is looked for only where a field has no value.
    """
    names = [f.name for f in shape.fields]
    keys = F.col(_NAMES)
    if shape.closed or shape.wrapped:
        return F.coalesce(F.exists(keys, lambda key: ~key.isin(names)), F.lit(False))
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
    is_missing = keys.isNotNull() & reduce(or_, (c.isNull() for c in columns))
    return F.when(is_missing, differs).otherwise(F.lit(False))


def _said() -> Column:
    name = F.col(ERROR_CLASS)
    return (
        F.when(name == "invalid_utf8", "the bytes are no UTF-8, or an escape is half a character")
        .when(name == "malformed", "not a JSON document")
        .when(name == "trailing_bytes", "text follows the JSON document")
        .when(name == "duplicate_field", "an object has a name twice")
        .when(name == "too_large", "too large for a VARIANT, or an object has a name twice")
        .when(name == "out_of_range", "a number does not fit its column without loss")
        .when(
            F.col(_FOUND).isNotNull(),
            "a name that the schema forbids, or has in another case",
        )
        .when(name == "type_mismatch", "a value is not of its field's type")
    )
