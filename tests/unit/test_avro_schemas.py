"""From Avro schemas to columns and the reader schema."""

import json

import pytest

from tests.worlds.avro_versions import CASES, field, logical, record
from tests.worlds.schemas import array, columns, mapping, merge, struct
from tideline.decoding.schemas.merging import nullable_writers
from tideline.decoding.schemas.schema_changes import Incompatible, NewField, Unusable
from tideline.model.decoding import PartPlan


def avro(*schemas, **more):
    return merge("avro", *schemas, **more)


def the_misfit(merged):
    (misfit,) = merged.misfits
    return misfit


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        ("boolean", "boolean"),
        ("int", "long"),
        ("long", "long"),
        ("float", "double"),
        ("double", "double"),
        ("string", "string"),
        ("bytes", "binary"),
        (["null", "int"], "long"),
        (["string"], "string"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        ({"type": "fixed", "name": "F", "size": 4}, "binary"),
        (logical("long", "timestamp-millis"), "timestamp"),
        (logical("long", "timestamp-micros"), "timestamp"),
        (logical("long", "local-timestamp-micros"), "timestamp"),
        (logical("long", "timestamp-nanos"), "long"),
        (logical("int", "date"), "date"),
        (logical("int", "time-millis"), "integer"),
        (logical("long", "time-micros"), "long"),
        (logical("bytes", "decimal", precision=9, scale=2), "decimal(38,2)"),
        (logical("bytes", "decimal", precision=39, scale=2), "binary"),
        (logical("bytes", "decimal", precision=4, scale=5), "binary"),
        (
            {**logical("fixed", "decimal", precision=5, scale=1), "name": "D", "size": 4},
            "decimal(9,1)",
        ),
        (logical("string", "uuid"), "string"),
        (logical("long", "of-our-own"), "long"),
        ({"type": "array", "items": "int"}, array("long")),
        ({"type": "map", "values": ["null", "float"]}, mapping("double")),
        (record(("a", "int"), ("b", "string"), name="R"), struct(a="long", b="string")),
        (["null", "string", "int"], struct(member0="string", member1="long")),
        (["int", "long", "null"], "long"),
        (["float", "double"], "double"),
    ],
)
def test_a_type_makes_a_column(type_, column):
    """Wide from the start: a column cannot be widened later."""
    assert columns(avro(record(("f", type_)))) == {"f": column}


def test_what_holds_nothing_makes_no_column():
    """Null, records without fields, and lists of them."""
    nothing = record(name="E")
    merged = avro(record(("a", "null"), ("b", nothing), ("c", {"type": "array", "items": "E"})))
    assert columns(merged) == {}
    assert not merged.misfits


def test_every_field_of_the_reader_may_be_missing_and_its_last_tells_readable_records():
    """A writer without a field gives null, and no writer gives `_ok`."""
    fields = json.loads(avro(record(("a", "int"), ("b", "string"))).reader.text)["fields"]
    assert [f["name"] for f in fields] == ["a", "b", "_ok"]
    assert [f["default"] for f in fields] == [None, None, 1]
    assert [f["type"] for f in fields] == [["null", "long"], ["null", "string"], "int"]


@pytest.mark.parametrize("case", CASES)
def test_versions_merge_into_one_reader_that_stays(case):
    """Every version fits; merged again, alone or together, they change nothing."""
    schemas = [schema for schema, _, _ in CASES[case]]
    merged = avro(*schemas)
    assert not merged.misfits
    assert [w.schema_id for w in merged.writers] == [n + 1 for n in range(len(schemas))]
    again = avro(*schemas, previous=merged.reader)
    assert (again.reader, again.changes) == (merged.reader, ())
    for number, schema in enumerate(schemas):
        alone = avro(schema, previous=merged.reader, first_id=number + 1)
        assert alone.reader == merged.reader


@pytest.mark.parametrize(
    ("was", "becomes", "column"),
    [
        ("double", "long", "double"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, "string", "string"),
        ("string", {"type": "enum", "name": "E", "symbols": ["A"]}, "string"),
        (["null", {"type": "enum", "name": "E", "symbols": ["A"]}], "string", "string"),
    ],
)
def test_a_type_that_its_column_holds_as_well_fits(was, becomes, column):
    """In both orders of the ids, and of a table's first schemas."""
    first = avro(record(("a", was)))
    found = avro(record(("a", becomes)), previous=first.reader, first_id=2)
    assert (found.misfits, columns(found)) == ((), {"a": column})
    assert avro(record(("a", was)), record(("a", becomes))).misfits == ()


ORDER = record(("id", "long"), ("s", "string"), name="Order")
ANY_SCALE = {
    "type": "record",
    "name": "io.debezium.data.VariableScaleDecimal",
    "fields": [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}],
}


@pytest.mark.parametrize(
    ("root", "found", "may_be_null"),
    [
        (ORDER, {"id": "long", "s": "string"}, False),
        (["null", ORDER], {"id": "long", "s": "string"}, True),
        ([ORDER, "null"], {"id": "long", "s": "string"}, True),
        ([ORDER], {"id": "long", "s": "string"}, False),
        (["null", "long"], {"value": "long"}, True),
        ("long", {"value": "long"}, False),
        (ANY_SCALE, {"value": "string"}, False),
        (["null", ANY_SCALE], {"value": "string"}, True),
        ("null", {}, True),
        (["null"], {}, True),
        (record(name="Empty"), {}, False),
    ],
)
def test_the_root_is_the_same_for_columns_and_for_the_decoder(root, found, may_be_null):
    """A decoder that takes a record for a single value reads nulls, and finds nothing wrong."""
    merged = avro(root)
    assert (merged.misfits, columns(merged)) == ((), found)
    (writer,) = merged.writers
    text = json.loads(writer.text)
    records = [b for b in (text if isinstance(text, list) else [text]) if b != "null"]
    assert [f["name"] for r in records for f in r["fields"]] == [*found]
    part = PartPlan("value", "avro", "plain", None, merged.writers, (), (), merged.reader)
    assert nullable_writers(part) == ((1,) if may_be_null else ())


def test_a_record_and_null_beside_a_plain_record_are_one_table():
    """A registry calls the second schema compatible."""
    first = avro(ORDER)
    found = avro(ORDER, ["null", ORDER], previous=first.reader)
    assert (found.misfits, found.reader) == ((), first.reader)


def test_columns_stay_where_they_are_and_new_ones_come_last():
    """Whatever order the fields have in a schema, and whether they are there."""
    first = avro(record(("b", "int"), ("a", "string")))
    second = avro(record(("z", "int"), ("a", "string")), previous=first.reader, first_id=2)
    assert list(columns(second)) == ["b", "a", "z"]
    assert second.changes == (NewField("orders-value:2", "z", "z", "long"),)
    assert [c.name for c in second.reader.columns] == ["b", "a", "z"]


def test_a_table_s_first_columns_are_no_new_fields():
    """`new_field: halt` is no reason to refuse a stream's first schemas."""
    assert avro(record(("a", "int")), record(("b", "int"))).changes == ()


def test_new_fields_inside_of_columns_are_named_by_their_path():
    """In records, in lists of them, in unions."""
    line = record(("n", "int"), name="L")
    first = avro(record(("l", {"type": "array", "items": line}), ("u", ["int", "string"])))
    more = record(("n", "int"), ("m", "float"), name="L")
    wider = record(("l", {"type": "array", "items": more}), ("u", ["int", "string", "boolean"]))
    found = avro(wider, previous=first.reader, first_id=2)
    assert [(c.field, c.column, c.type) for c in found.changes] == [
        ("l.[].m", "l", "double"),
        ("u.member2", "u", "boolean"),
    ]


@pytest.mark.parametrize(
    ("was", "becomes", "reason"),
    [
        ("int", "double", "the column holds long, the schema has double"),
        ("int", "string", "the column holds long, the schema has string"),
        (
            logical("long", "timestamp-millis"),
            "long",
            "holds timestamp-millis, the schema has long",
        ),
        (
            logical("long", "timestamp-millis"),
            logical("long", "timestamp-micros"),
            "the column holds timestamp-millis, the schema has timestamp-micros",
        ),
        (
            logical("long", "timestamp-millis"),
            logical("long", "local-timestamp-millis"),
            "the column holds timestamp-millis, the schema has local-timestamp-millis",
        ),
        ("int", logical("int", "date"), "the column holds long, the schema has date"),
        (
            logical("bytes", "decimal", precision=9, scale=2),
            logical("bytes", "decimal", precision=9, scale=4),
            "the decimal's scale was 2 and is 4",
        ),
        (
            {"type": "fixed", "name": "F", "size": 2},
            {"type": "fixed", "name": "F", "size": 3},
            "the fixed type had 2 bytes and has 3",
        ),
        ("string", {"type": "array", "items": "string"}, "has array of string"),
        (["null", "string"], ["string", "int"], "has union of string, long"),
    ],
)
def test_a_type_that_does_not_fit_is_found(was, becomes, reason):
    """Spark would read nulls, or wrong values, and say nothing."""
    first = avro(record(("id", "int"), ("f", was)))
    found = avro(record(("id", "int"), ("f", becomes)), previous=first.reader, first_id=2)
    misfit = the_misfit(found)
    assert isinstance(misfit, Incompatible)
    assert (misfit.field, misfit.schema, misfit.since) == ("f", "orders-value:2", "orders-value:1")
    assert reason in misfit.reason
    assert json.loads(misfit.found_text)["fields"][1] == field("f", becomes)
    assert misfit.known_text == first.reader.text
    assert (found.reader, found.writers) == (first.reader, ())


def test_both_schemas_stand_side_by_side_where_both_are_known():
    """A person compares them as they were written."""
    first, second = record(("f", "int")), record(("f", {"type": "map", "values": "int"}))
    misfit = the_misfit(avro(first, second, previous=avro(first).reader))
    assert (json.loads(misfit.known_text), json.loads(misfit.found_text)) == (first, second)


def test_fields_that_differ_only_in_case_are_found():
    """Spark takes them for one, and reads nothing but nulls."""
    misfit = the_misfit(avro(record(("name", "string"), ("Name", "string"))))
    assert misfit.reason == "its name differs from name only in case"
    nested = record(("r", record(("a", "int"), ("A", "int"), name="I")))
    assert the_misfit(avro(nested)).field == "r.A"
    known = avro(record(("id", "string")))
    later = avro(record(("ID", "string")), previous=known.reader, first_id=2)
    assert the_misfit(later).since == "orders-value:1"


def test_a_name_that_was_an_alias_is_no_new_field():
    """The column has values of both names already."""
    known = avro(record(("name", "string")), record(("full", "string", "name")))
    assert columns(known) == {"name": "string"}
    both = avro(record(("name", "string"), ("full", "string")), previous=known.reader, first_id=3)
    assert the_misfit(both).reason == "it is another name of name, and now both are there"


@pytest.mark.parametrize(
    ("schema", "where", "reason"),
    [
        (
            record(("value", "int"), ("next", ["null", "Order"])),
            "next",
            "the record Order contains itself; no table's type can",
        ),
        (
            record(
                ("a", record(("l", {"type": "map", "values": "x.Order"}), name="I")), namespace="x"
            ),
            "a.l.{}",
            "the record x.Order contains itself; no table's type can",
        ),
        (record(("_OK", "int")), "_OK", "the name is taken: it marks readable records"),
        (record(("a", "Nowhere")), "a", "the type Nowhere is not defined"),
        (
            record(("a", ["string", record(name="E")])),
            "a",
            "a union with a type that holds nothing",
        ),
        (
            record(("a", [logical("long", "timestamp-millis"), "int"])),
            "a",
            "a union with two numbers read as one (long)",
        ),
        (record(("a", "int"), ("a", "int")), "", "the record Order has two fields of one name"),
        (record(("no name", "int")), "", "no field: "),
        ("{", "", "it is not JSON: "),
        ({"type": "array"}, "[]", "no Avro type: null"),
    ],
)
def test_a_schema_that_makes_no_columns_is_named(schema, where, reason):
    """It is left out, the others are merged."""
    merged = merge("avro", schema, record(("good", "int")))
    misfit = the_misfit(merged)
    assert isinstance(misfit, Unusable)
    assert (misfit.schema, misfit.field) == ("orders-value:1", where)
    assert misfit.reason.startswith(reason)
    assert columns(merged) == {"good": "long"}
    assert [w.schema_id for w in merged.writers] == [2]


def test_a_type_used_over_and_over_is_refused_before_it_fills_the_memory():
    """Each level doubles: 2^30 columns."""
    levels = [record(("x", "int"), name="L0")]
    for n in range(1, 30):
        levels.append(record(("a", levels[-1]), ("b", f"L{n - 1}"), name=f"L{n}"))
    assert "more than 20000 types" in the_misfit(avro(levels[-1])).reason


def test_a_new_table_takes_the_types_that_fit_most_schemas():
    """A field that was an int and became a double holds both, if nothing holds the old type yet."""
    merged = avro(record(("f", "int")), record(("f", "double"), ("g", "int")))
    assert not merged.misfits
    assert columns(merged) == {"f": "double", "g": "long"}


def test_records_and_single_values_are_not_one_table():
    """A key that was a string and becomes a record."""
    known = avro("string", part="key")
    assert columns(known) == {"key_value": "string"}
    found = avro(record(("id", "int")), previous=known.reader, first_id=2, part="key")
    assert the_misfit(found).reason == "the table holds single values, the schema is of records"


def test_a_column_keeps_its_name():
    """Even where another column would have it now."""
    known = avro(record(("offset", "int"), ("key_id", "int")))
    assert list(columns(known)) == ["value_offset", "key_id"]
    later = avro(
        record(("key_id", "int"), ("b", "int")), previous=known.reader, reserved=("key_id", "b")
    )
    assert list(columns(later)) == ["value_offset", "key_id", "b_2"]


def test_no_schema_makes_no_columns():
    """As where every record has an unknown id."""
    merged = avro()
    assert (merged.reader.columns, merged.writers, merged.changes) == ((), (), ())
    assert list(columns(avro(record(("a", "int")), previous=merged.reader))) == ["a"]


def test_changes_say_in_a_sentence_what_they_are():
    """They stand in incidents and logs."""
    known = avro(record(("a", "int")))
    later = avro(
        record(("a", "int"), ("b", "int")),
        record(("a", "string")),
        record(("r", "Order")),
        previous=known.reader,
        first_id=2,
    )
    assert [str(c) for c in later.changes] == [
        "orders-value:2 brings the field b (long)",
        "orders-value:3 does not fit: field a: the column holds long, the schema has string"
        " (there since orders-value:1)",
        "orders-value:4 cannot be used in field r: the record Order contains itself; no table's"
        " type can",
    ]


@pytest.mark.parametrize(
    "malformed",
    [
        {"type": "record", "name": "R", "fields": 5},
        {"type": "record", "name": "R", "namespace": ["n"], "fields": []},
        record(("a", 5)),
        record(("a", {"type": 5})),
        record(("a", {"type": "fixed", "name": "F", "size": -1})),
        record(("a", {"type": "fixed", "name": "F", "size": 2**40})),
        record(("a", {"type": "enum", "name": "E", "symbols": ["X", "X"]})),
        record(("a", {"type": "enum", "name": "E", "symbols": ["no name"]})),
        record(("a²", "int")),
        record(("𐐀", "int")),
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "aliases": 5}]},
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "aliases": [[]]}]},
    ],
)
def test_what_no_library_reads_is_left_out(malformed):
    """Java's would refuse it in the middle of a job, each time again."""
    merged = merge("avro", record(("good", "int")), malformed)
    assert isinstance(the_misfit(merged), Unusable)
    assert columns(merged) == {"good": "long"}


def test_names_are_letters_and_digits_of_any_script():
    """As Avro's library for Java takes them."""
    assert columns(avro(record(("größe_٣", "int")))) == {"größe_٣": "long"}
