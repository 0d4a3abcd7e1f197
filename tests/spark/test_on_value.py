"""A value that its column cannot hold is null, where the stream file says so, and is named."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from devstack.protobuf_messages import message_class
from tests.worlds.json_oracle import LONG_S
from tests.worlds.protobuf_schemas import ALL, protobuf_part
from tests.worlds.raw_tables import avro, avro_part, decode, json_part
from tideline.decoding.schemas.json_schema import SCHEMALESS
from tideline.decoding.schemas.merging import reader_schema
from tideline.decoding.spark.fields import lenient_places
from tideline.model.decoding import (
    PLAIN_ID,
    Expectation,
    FieldChoice,
    PartPlan,
    WriterSchema,
)

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "note": {"type": "string"},
        "total": {"type": "number"},
        "at": {"type": "string", "format": "date-time"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
    },
}
BIG = 2**63


def lenient(part, *names):
    return replace(part, lenient=names)


def named(rows, *columns):
    """Of each row the values of some columns, and the names of those that hold nothing."""
    return [(*(row[c] for c in columns), row["invalid_columns"]) for row in rows]


def test_the_record_stays_and_the_column_is_named(spark, tmp_path):
    """One problem or two, at any depth below the column; every other problem as without it."""
    values = [
        b'{"id":1,"note":"a","lines":[{"n":1}]}',
        b'{"id":9223372036854775808,"note":"b"}',
        b'{"id":2,"note":"c","lines":[{"n":1},{"n":1.5}]}',
        b'{"id":"x","note":"d","lines":7,"at":"yesterday"}',
        b'{"id":3,"note":"e","total":1e400}',  # of a column that is not named
        b'{"id":1e400,"note":5}',
        b'{"id":9223372036854775808,"id":1}',
        b'{"id":[1,{"y":1,"y":2}]}',
        b'{"id":9223372036854775808',
        rb'{"at":"\ud83d."}',
        b'{"id":9223372036854775808} x',
        b'{"lines":{"a":' + b"9" * 2000 + b"}}",
        b'{"ID":1}',
        b'{"lines":[{"N":1}],"note":"f"}',
        b"[1]",
        None,
    ]
    part = lenient(json_part(ORDER), "lines", "at", "id")
    result, typed, bad = decode(spark, tmp_path, values, [part])
    assert named(typed, "offset", "id", "note") == [
        (0, 1, "a", None),
        (1, None, "b", ["id"]),
        (2, 2, "c", ["lines"]),
        (3, None, "d", ["id", "at", "lines"]),  # as the table has them
        (13, None, "f", ["lines"]),
        (15, None, None, None),
    ]
    assert typed[0]["lines"] == [{"n": 1}]
    assert typed[2]["lines"] is None
    assert [(row["offset"], row["error_class"]) for row in bad] == [
        *((4, "out_of_range"), (5, "type_mismatch"), (6, "duplicate_field")),
        *((7, "duplicate_field"), (8, "malformed"), (9, "invalid_utf8")),
        *((10, "trailing_bytes"), (11, "malformed"), (12, "type_mismatch")),
        (14, "type_mismatch"),
    ]
    assert result.tombstones == 1


def test_without_such_a_column_the_table_is_as_ever(spark, tmp_path):
    _, typed, bad = decode(spark, tmp_path, [b'{"id":1}', b'{"id":1e99}'], [json_part(ORDER)])
    assert "invalid_columns" not in typed[0]
    assert len(bad) == 1


def test_a_name_in_another_case_is_no_value_of_its_column(spark, tmp_path):
    part = lenient(json_part(ORDER), "lines", "note")
    values = [b'{"note":5}', f'{{"line{LONG_S}":1}}'.encode()]
    _, typed, bad = decode(spark, tmp_path, values, [part])
    assert [row["invalid_columns"] for row in typed] == [["note"]]
    assert [row["error_class"] for row in bad] == ["type_mismatch"]


def test_a_listed_field_inside_of_another_one_is_null_alone(spark, tmp_path):
    """The column counts, and not the field that it is in."""
    schema = {"properties": {"customer": ORDER, "id": {"type": "integer"}}, "type": "object"}
    writer = WriterSchema(PLAIN_ID, json.dumps(schema), "", "v")
    fields = (FieldChoice("customer.id", "buyer"), FieldChoice("customer.note"), FieldChoice("id"))
    merged = reader_schema("value", "json", [writer], None, fields=fields)
    part = PartPlan("value", "json", "plain", None, merged.writers, (), (), merged.reader)
    part = lenient(replace(part, fields=fields), "buyer")
    values = [
        b'{"customer":{"id":9223372036854775808,"note":"a"},"id":1}',
        b'{"customer":{"note":"b"},"id":9223372036854775808}',
        b'{"customer":[],"id":2}',
    ]
    _, typed, bad = decode(spark, tmp_path, values, [part])
    assert named(typed, "buyer", "customer_note", "id") == [(None, "a", 1, ["buyer"])]
    assert [row["error_class"] for row in bad] == ["out_of_range", "type_mismatch"]


DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}
DAY = {"type": "int", "logicalType": "date"}
ROW = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", {**DECIMAL, "precision": 38}]},
        {
            "name": "days",
            "type": {"type": "array", "items": {"type": "int", "logicalType": "date"}},
        },
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "note", "type": "string"},
    ],
}
WIDE = {**ROW, "fields": [{**f} for f in ROW["fields"]]}
WIDE["fields"][1] = {"name": "price", "type": ["null", DECIMAL]}
WIDE["fields"][2] = {"name": "days", "type": {"type": "array", "items": "int"}}
WIDE["fields"][3] = {"name": "at", "type": "long"}


def avro_rows():
    writer = WriterSchema(1, json.dumps(ROW), "", "s:1")
    merged = reader_schema("value", "avro", [writer], None)
    assert not merged.misfits
    return PartPlan("value", "avro", "confluent", "s", merged.writers, (), (), merged.reader)


def test_decimals_days_and_times_of_avro(spark, tmp_path):
    """The record is read to its end, behind a value that its column cannot hold as well."""
    good = {"id": 1, "price": Decimal("1.50"), "days": [1], "at": 0, "note": "x"}
    far = 10**18
    records = [
        good,
        good | {"price": Decimal(10**50), "note": "y"},
        good | {"days": [1, 10**8, 2]},
        good | {"at": far, "price": Decimal(10**50)},
    ]
    values = [avro(WIDE, record, 1) for record in records]
    values += [values[1][:-1], values[1] + b"x"]
    part = lenient(avro_rows(), "price", "days")
    _, typed, bad = decode(spark, tmp_path, values, [part])
    assert named(typed, "offset", "price", "note") == [
        (0, Decimal("1.50"), "x", None),
        (1, None, "y", ["price"]),
        (2, Decimal("1.50"), "x", ["days"]),
    ]
    assert typed[2]["days"] is None
    assert [(row["offset"], row["error_class"]) for row in bad] == [
        *((3, "out_of_range"), (4, "malformed"), (5, "trailing_bytes")),
    ]


def test_numbers_and_times_of_protobuf(spark, tmp_path):
    """A field in the encoding of another type shows another message, and stays bad."""
    made = message_class(ALL, "shop.All")
    far = made(text={"value": "t"})
    far.at.seconds = 10**12
    listed = made(text={"value": "l"})
    listed.times.add().seconds = 5
    listed.times.add().seconds = 10**12
    values = [
        made(u32=7, text={"value": "g"}).SerializeToString(),
        far.SerializeToString(),
        listed.SerializeToString(),
        b"\x08" + b"\xff" * 9 + b"\x01" + made(text={"value": "n"}).SerializeToString(),
        b"\x0a\x01a",
    ]
    part = lenient(protobuf_part(ALL, framing="plain", message="shop.All"), "u32", "at", "times")
    _, typed, bad = decode(spark, tmp_path, values, [part])
    assert named(typed, "text", "u32") == [
        ("g", 7, None),
        ("t", 0, ["at"]),
        ("l", 0, ["times"]),
        ("n", None, ["u32"]),
    ]
    assert [row["at"] for row in typed] == [None] * 4
    assert [row["times"] for row in typed] == [[], [], None, []]
    assert [row["error_class"] for row in bad] == ["type_mismatch"]


@pytest.mark.parametrize(
    ("schema", "value", "bad_value"),
    [(None, b"[1.5]", b"[1e400]"), ({"type": ["integer", "null"]}, b"7", b"9223372036854775808")],
)
def test_a_whole_value_is_no_tombstone_for_it(spark, tmp_path, schema, value, bad_value):
    """A VARIANT, a single number: the row is there, and its column names itself."""
    part = lenient(json_part(json.loads(SCHEMALESS) if schema is None else schema), "value")
    _, typed, bad = decode(spark, tmp_path, [value, bad_value, b"null"], [part])
    assert bad == []
    assert [row["invalid_columns"] for row in typed] == [None, ["value"], None]
    assert [row["is_tombstone"] for row in typed] == [False, False, schema is not None]
    assert typed[1]["value"] is None


def test_an_expectation_sees_a_null(spark, tmp_path):
    """As of any null, `on_null` decides; a condition may ask for the names."""
    values = [b'{"id":1,"total":5}', b'{"id":2,"total":1e400}', b'{"id":3,"total":-1}']
    part = lenient(json_part(ORDER), "total")
    for on_null, sql, ids in (
        ("fail", "total > 0", [1]),
        ("pass", "total > 0", [1, 2]),
        ("fail", "total > 0 or array_contains(invalid_columns, 'total')", [1, 2]),
    ):
        folder = tmp_path / f"{on_null}-{len(sql)}"
        rule = Expectation("positive", sql, "quarantine", on_null)
        result, typed, _ = decode(spark, folder, values, [part], expect=(rule,))
        assert [row["id"] for row in typed] == ids
        assert result.classes == {"expectation": 3 - len(ids)}


def test_places_of_columns():
    part = lenient(avro_part({}, ROW, {"id": "long", "note": "string"}), "note", "nobody")
    assert lenient_places(part) == {("note", False): (1,)}
