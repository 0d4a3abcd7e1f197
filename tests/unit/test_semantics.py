"""Kafka Connect's and Debezium's logical types become the columns that they stand for."""

import pytest

from tests.worlds.avro_versions import record
from tests.worlds.schemas import columns, merge, struct
from tests.worlds.semantics import ANY_SCALE, connect, decimal

WRITTEN = struct(scale="long", value="binary")
TYPES = [
    (connect("int", "io.debezium.time.Date"), "date", "long"),
    (connect("int", "org.apache.kafka.connect.data.Date"), "date", "long"),
    (connect("long", "io.debezium.time.Timestamp"), "timestamp_ntz", "long"),
    (connect("long", "io.debezium.time.MicroTimestamp"), "timestamp_ntz", "long"),
    (connect("long", "org.apache.kafka.connect.data.Timestamp"), "timestamp", "long"),
    (connect("string", "io.debezium.time.ZonedTimestamp"), "timestamp", "string"),
    (decimal(2), "decimal(38,2)", "binary"),
    (decimal(38), "decimal(38,38)", "binary"),
    (ANY_SCALE, "string", WRITTEN),
]
AS_WRITTEN = [
    (decimal(39), "binary"),
    (decimal(-2), "binary"),
    (connect("bytes", "org.apache.kafka.connect.data.Decimal"), "binary"),
    (connect("long", "io.debezium.time.NanoTimestamp"), "long"),
    (connect("int", "io.debezium.time.Time"), "long"),
    (connect("long", "io.debezium.time.MicroTime"), "long"),
    (connect("long", "io.debezium.time.NanoTime"), "long"),
    (connect("string", "io.debezium.time.ZonedTime"), "string"),
    (connect("int", "io.debezium.time.Year"), "long"),
    (connect("long", "io.debezium.time.MicroDuration"), "long"),
    (connect("string", "io.debezium.time.Interval"), "string"),
    (connect("string", "io.debezium.data.Uuid"), "string"),
    (connect("string", "io.debezium.data.Json"), "string"),
    (connect("string", "io.debezium.data.Enum"), "string"),
    (connect("bytes", "io.debezium.data.Bits"), "binary"),
    (connect("long", "io.debezium.time.Date"), "long"),  # written as no other Date is
    (connect("int", ["io.debezium.time.Date"]), "long"),
]


def avro(*schemas, **more):
    return merge("avro", *schemas, **more)


@pytest.mark.parametrize(("type_", "column", "written"), TYPES)
def test_a_logical_type_makes_a_column(type_, column, written):
    """Nullable or not; and what it is written as, where nobody wants the meaning."""
    for one in (type_, ["null", type_]):
        assert columns(avro(record(("a", one)))) == {"a": column}
        assert columns(avro(record(("a", one)), plain=True)) == {"a": written}


@pytest.mark.parametrize(("type_", "column"), AS_WRITTEN)
def test_what_is_not_listed_is_as_it_is_written(type_, column):
    assert columns(avro(record(("a", type_)))) == {"a": column}


@pytest.mark.parametrize(("type_", "column", "written"), TYPES)
def test_a_column_that_is_there_keeps_its_type_and_that_is_told_once(type_, column, written):
    """A version before, or logical_types: off, has made it; later fields get the new type."""
    first = record(("a", type_))
    before = avro(first, plain=True).reader
    again = ANY_SCALE["connect.name"] if type_ is ANY_SCALE else type_  # defined once
    more = record(("a", type_), ("b", again))
    after = avro(first, more, previous=before)
    assert columns(after) == {"a": written, "b": column}
    assert after.kept == (() if written is WRITTEN else ("a",))
    assert not after.misfits
    later = avro(first, more, record(("c", "int")), previous=after.reader)
    assert (columns(later), later.kept) == ({"a": written, "b": column, "c": "long"}, ())


@pytest.mark.parametrize(("type_", "column", "written"), TYPES)
def test_the_meaning_of_a_column_is_not_lost_with_the_setting(type_, column, written):
    """Its type stays when nobody wants such types any more; new fields are as written."""
    before = avro(record(("a", type_))).reader
    after = avro(record(("a", type_)), record(("b", type_)), previous=before, plain=True)
    assert columns(after) == {"a": column, "b": written}
    assert not after.misfits


def test_a_schema_without_the_meaning_does_not_fit():
    """A number of what, nobody knows."""
    before = avro(record(("a", connect("long", "io.debezium.time.Timestamp")))).reader
    (misfit,) = avro(record(("a", "long")), previous=before).misfits
    assert misfit.field == "a"


def test_in_a_union_of_several_types_they_are_as_written():
    """Avro has no union of two texts."""
    union = [connect("string", "io.debezium.time.ZonedTimestamp"), "long"]
    assert columns(avro(record(("a", union)))) == {"a": struct(member0="string", member1="long")}


def test_a_part_of_a_decimal_that_brings_its_scale_may_be_listed():
    """As before there was a type for it."""
    listed = avro(record(("a", ANY_SCALE)), paths=("a.value",))
    assert [(c.name, c.type) for c in listed.reader.in_table] == [("a_value", "binary")]
