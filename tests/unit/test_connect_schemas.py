"""From the schemas that Kafka Connect's JSON converter writes to columns."""

import json

import pytest

from tests.worlds.connect_json import ANY_SCALE, field, of, schema
from tests.worlds.schemas import array, columns, mapping, merge, struct
from tideline.decoding.schemas.schema_changes import Unusable

PLAIN = [
    (of("int8"), "long"),
    (of("int16"), "long"),
    (of("int32"), "long"),
    (of("int64"), "long"),
    (of("float"), "double"),
    (of("float32"), "double"),
    (of("double"), "double"),
    (of("boolean"), "boolean"),
    (of("string"), "string"),
    (of("bytes"), "binary"),
    (of("string", "io.debezium.data.Uuid"), "string"),
    (of("int64", "io.debezium.time.NanoTimestamp"), "long"),
    (of("int64", "io.debezium.time.MicroTime"), "long"),
    (of("array", items=of("int32")), array("long")),
    (of("map", keys=of("string"), values=of("float")), mapping("double")),
    (of("map", keys=of("int32"), values=of("float")), "string"),
    (schema(field("a", of("int8"))), struct(a="long")),
]
MEANT = [
    (of("int32", "io.debezium.time.Date"), "date", "long"),
    (of("int64", "io.debezium.time.Timestamp"), "timestamp_ntz", "long"),
    (of("int64", "io.debezium.time.MicroTimestamp"), "timestamp_ntz", "long"),
    (of("int64", "org.apache.kafka.connect.data.Timestamp"), "timestamp", "long"),
    (of("string", "io.debezium.time.ZonedTimestamp"), "timestamp", "string"),
    (
        of("bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "6"}),
        "decimal(38,6)",
        "binary",
    ),
    (
        of("bytes", "org.apache.kafka.connect.data.Decimal", parameters={"scale": "0"}),
        "decimal(38,0)",
        "binary",
    ),
    (ANY_SCALE, "string", struct(scale="long", value="binary")),
]
UNUSABLE = {
    "no type": {"type": "struct", "fields": [{"field": "a"}]},
    "another's type": {"type": "struct", "fields": [field("a", of("uint8"))]},
    "a type that is none": {"type": ["struct"]},
    "no name": {"type": "struct", "fields": [of("int8")]},
    "a name twice": schema(field("a", of("int8")), field("a", of("string"))),
    "fields that are none": {"type": "struct", "fields": [1]},
    "no schema": [],
    "no JSON": "{",
}


def connect(*schemas, **more):
    return merge("connect", *schemas, **more)


@pytest.mark.parametrize(("type_", "column"), PLAIN)
def test_a_type_makes_a_column(type_, column):
    assert columns(connect(schema(field("a", type_)))) == {"a": column}


@pytest.mark.parametrize(("type_", "column", "written"), MEANT)
def test_a_logical_type_makes_a_column(type_, column, written):
    """And the reader's own text gives the same once more."""
    one = schema(field("a", type_))
    first = connect(one)
    assert columns(first) == {"a": column}
    assert columns(connect(one, plain=True)) == {"a": written}
    again = connect(schema(field("a", type_), field("b", type_)), previous=first.reader)
    assert (columns(again), again.misfits) == ({"a": column, "b": column}, ())


@pytest.mark.parametrize(("type_", "column", "written"), MEANT)
def test_a_column_that_is_there_keeps_its_type_and_that_is_told_once(type_, column, written):
    one, two = schema(field("a", type_)), schema(field("a", type_), field("b", of("int8")))
    before = connect(one, plain=True).reader
    after = connect(one, previous=before)
    assert columns(after) == {"a": written}
    assert after.kept == (("a",) if isinstance(written, str) else ())
    assert connect(one, two, previous=after.reader).kept == ()


@pytest.mark.parametrize("text", UNUSABLE.values(), ids=UNUSABLE)
def test_what_is_no_schema_is_left_out(text):
    """Whoever writes records decides what is in them."""
    (left_out,) = connect(text).misfits
    assert isinstance(left_out, Unusable)


def test_more_levels_than_any_table_has():
    deep = of("int8")
    for _ in range(70):
        deep = of("array", items=deep)
    (left_out,) = connect(schema(field("a", deep))).misfits
    assert "64 levels" in left_out.reason


def test_a_payload_that_is_no_struct_is_one_column():
    """As keys are, often enough."""
    assert columns(connect(of("int32"))) == {"value": "long"}


def test_a_struct_without_fields_has_no_column():
    assert columns(connect(schema(field("a", schema()), field("b", of("int8"))))) == {"b": "long"}


def test_a_schema_that_is_written_in_another_order_is_another_text_of_the_same_columns():
    one = schema(field("a", of("int8")))
    other = json.dumps(dict(reversed(one.items())))
    assert columns(connect(one, other)) == {"a": "long"}
