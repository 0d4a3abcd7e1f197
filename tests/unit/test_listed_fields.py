"""A list of fields makes columns of its own: paths, names, and what is left out of everything."""

import json

import pytest

from tests.worlds.schemas import merge, struct, writer
from tideline.decoding.schemas.merging import paths_of, reader_schema
from tideline.decoding.schemas.schema_changes import Incompatible, NewField
from tideline.model.decoding import FieldChoice

CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "fields": [{"name": "name", "type": "string"}, {"name": "id", "type": "int"}],
}
ORDER = [("at", "long"), ("customer", ["null", CUSTOMER]), ("note", "string")]


def order(*fields):
    """An Avro record with fields of these names and types."""
    named = [{"name": f[0], "type": f[1], **(f[2] if len(f) > 2 else {})} for f in fields]
    return {"type": "record", "name": "Order", "fields": named}


def listed(*paths, **named):
    """A list of fields; the names of some columns are given."""
    given = (FieldChoice(path.replace("__", "."), column) for path, column in named.items())
    return (*(FieldChoice(path) for path in paths), *given)


def merge_listed(choices, *schemas, format="avro", previous=None, first_id=1, **others):
    writers = [writer(first_id + n, s) for n, s in enumerate(schemas)]
    part = others.get("part", "value")
    return reader_schema(part, format, writers, previous, others.get("reserved", ()), choices)


def in_table(merged):
    return {c.name: c.type for c in merged.reader.in_table}


def test_only_listed_fields_are_columns_and_are_decoded():
    """In the list's order; a path is joined with _, and leads to what the format decodes."""
    merged = merge_listed(listed("customer.id", "at", customer__name="who"), order(*ORDER))
    assert in_table(merged) == {"customer_id": "long", "at": "long", "who": "string"}
    assert [c.steps for c in merged.reader.in_table] == [
        ("customer", "id"),
        ("at",),
        ("customer", "name"),
    ]
    assert [c.field for c in merged.reader.columns] == ["at", "customer"]
    assert "note" not in merged.reader.text


def test_without_a_list_nothing_is_new():
    """The reader is the same as before there were lists."""
    merged = merge("avro", order(*ORDER))
    reader = merged.reader
    assert (reader.listed, reader.dropped, reader.history) == (None, (), "")
    assert reader.names == ("at", "customer", "note")


def test_a_record_and_a_field_of_it():
    """Both are columns; the struct has all of its fields."""
    merged = merge_listed(listed("customer.id", "customer"), order(*ORDER))
    assert in_table(merged) == {"customer_id": "long", "customer": struct(name="string", id="long")}


@pytest.mark.parametrize("format", ["avro", "json"])
def test_a_field_that_is_not_listed_neither_makes_an_incident_nor_halts(format):
    """It may come, and change its type."""
    if format == "avro":
        schemas = [order(*ORDER), order(("at", "long"), ("note", "double"), ("new", "int"))]
    else:
        kinds = ({"at": "integer", "note": "string"}, {"at": "integer", "note": "number"})
        schemas = [
            {"type": "object", "properties": {n: {"type": k} for n, k in properties.items()}}
            for properties in kinds
        ]
    first = merge_listed(listed("at"), schemas[0], format=format)
    second = merge_listed(
        listed("at"), schemas[1], format=format, previous=first.reader, first_id=2
    )
    assert (second.changes, second.misfits) == ((), ())
    assert in_table(second) == {"at": "long"}
    assert len(second.writers) == 1


def test_what_is_new_inside_a_listed_field_is_told():
    """And no more than that; a listed field that comes later was asked for."""
    wider = {**CUSTOMER, "fields": [*CUSTOMER["fields"], {"name": "age", "type": "int"}]}
    choices = listed("customer", "later")
    first = merge_listed(choices, order(*ORDER))
    schema = order(("customer", wider), ("other", "int"), ("later", "int"))
    second = merge_listed(choices, schema, previous=first.reader, first_id=2)
    assert second.changes == (NewField("orders-value:2", "customer.age", "customer", "long"),)
    assert list(in_table(second)) == ["customer", "later"]


def test_a_listed_field_that_changes_its_type_does_not_fit():
    """As without a list."""
    first = merge_listed(listed("customer.id"), order(*ORDER))
    other = {**CUSTOMER, "fields": [{"name": "id", "type": "string"}]}
    second = merge_listed(
        listed("customer.id"), order(("customer", other)), previous=first.reader, first_id=2
    )
    (misfit,) = second.misfits
    assert isinstance(misfit, Incompatible)
    assert misfit.field == "customer.id"


def test_a_record_that_became_a_single_value_does_not_fit():
    """Whatever is listed: nothing of it could be read."""
    first = merge_listed(listed("at"), order(*ORDER))
    second = merge_listed(listed("at"), '"string"', previous=first.reader, first_id=2)
    assert len(second.misfits) == 1


def test_a_renamed_field_is_found_by_both_names():
    """Writers name it as they please; the list knows one of the names."""
    old, new = order(("name", "string")), order(("full_name", "string", {"aliases": ["name"]}))
    for path, schemas in (("name", (old, new)), ("full_name", (new, old))):
        merged = merge_listed(listed(path), *schemas)
        assert in_table(merged) == {path: "string"}
        assert len(merged.writers) == 2
        for each in merged.writers:
            assert [f["name"] for f in json.loads(each.text)["fields"]] == [path]


def test_names_that_a_table_cannot_have():
    """The rule for every column: refused characters, the table's own names, keys, twins."""
    properties = {
        "a b": {"type": "object", "properties": {"c,d": {"type": "integer"}}},
        "a_b_c_d": {"type": "integer"},
        "headers": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties}
    choices = listed("a b.c,d", "a_b_c_d", "headers")
    assert list(in_table(merge_listed(choices, schema, format="json"))) == [
        "a_b_c_d",
        "a_b_c_d_2",
        "value_headers",
    ]
    of_key = merge_listed(choices, schema, format="json", part="key", reserved=["KEY_headers"])
    assert list(in_table(of_key)) == ["key_a_b_c_d", "key_a_b_c_d_2", "key_headers_2"]


def test_a_field_whose_name_has_a_dot():
    """Its whole name is looked for first."""
    properties = {
        "a": {"type": "object", "properties": {"b": {"type": "integer"}}},
        "a.b": {"type": "string"},
    }
    schema = {"type": "object", "properties": properties}
    merged = merge_listed(listed("a.b"), schema, format="json")
    assert in_table(merged) == {"a_b": "string"}


def test_a_field_without_a_name_is_not_the_record_that_it_is_in():
    """As the rows of change events are listed: field by field, behind the row's own name."""
    inside = {"type": "object", "properties": {"": {"type": "integer"}, "b": {"type": "integer"}}}
    schema = {"type": "object", "properties": {"a": inside}}
    merged = merge_listed(listed("a.", "a.b"), schema, format="json")
    assert in_table(merged) == {"a_": "long", "a_b": "long"}


def test_forbidden_names_are_nothing_to_a_list():
    """A field that is not listed is not looked at, so a schema cannot forbid others either."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    schema |= {"additionalProperties": False}
    merged = merge_listed(listed("a"), schema, format="json")
    assert "additionalProperties" not in json.loads(merged.reader.text)
    after = merge_listed((), schema, format="json", previous=merged.reader)
    assert json.loads(after.reader.text)["additionalProperties"] is False


def test_a_list_that_changes_keeps_every_column():
    """Columns that are listed no more keep name and type, and are the same when they return."""
    every = merge("avro", order(*ORDER))
    few = merge_listed(listed("customer.id"), order(*ORDER), previous=every.reader)
    assert in_table(few) == {"customer_id": "long"}
    assert [c.name for c in few.reader.dropped] == ["at", "customer", "note"]
    again = merge_listed((), order(*ORDER), previous=few.reader)
    assert in_table(again) == in_table(every)
    assert [c.name for c in again.reader.dropped] == ["customer_id"]
    assert not again.changes


def test_a_name_that_is_given_no_more():
    """The rule names the column again, and it may be the same one."""
    first = merge_listed(listed("customer.name", customer__id="who", at="at"), order(*ORDER))
    second = merge_listed(listed("customer.id", "at"), order(*ORDER), previous=first.reader)
    assert list(in_table(second)) == ["customer_id", "at"]
    assert [c.name for c in second.reader.dropped] == ["customer_name", "who"]
    third = merge_listed((), order(*ORDER), previous=second.reader)
    assert list(in_table(third)) == ["at", "customer", "note"]


def test_a_dropped_column_s_name_stays_taken():
    """Another field would continue a column that it is not."""
    first = merge_listed(listed("customer.id"), order(*ORDER))
    schema = order(*ORDER, ("customer_id", "string"))
    second = merge_listed(listed("customer_id"), schema, previous=first.reader, first_id=2)
    assert list(in_table(second)) == ["customer_id_2"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"note": "at"}, "note cannot be at: the table has that column, from at"),
        ({"note": "taken"}, "note cannot be taken: another part has that column"),
        ({"more": "at"}, None),  # what moved, goes on
    ],
)
def test_a_name_that_is_given_goes_on_only_with_its_type(given, said):
    """The column of another field may be continued, by whoever says so."""
    first = merge_listed(listed("at"), order(*ORDER))
    schema = order(*ORDER, ("more", "int"))
    merged = merge_listed(
        listed(**given), schema, previous=first.reader, first_id=2, reserved=["Taken"]
    )
    assert [r.startswith(said) for r in merged.refused] == [True] * bool(said)
    if said is None:
        assert in_table(merged) == {"at": "long"}
        assert merged.reader.dropped == ()


def test_a_given_name_is_not_another_listed_field_s():
    """The other one has that column already."""
    first = merge_listed(listed("at"), order(*ORDER, ("more", "int")))
    merged = merge_listed(
        listed("at", more="at"), order(*ORDER, ("more", "int")), previous=first.reader
    )
    assert merged.refused == ("more cannot be at: that is the column of at",)


def test_a_field_that_no_schema_has():
    """It makes no column; the fields that there are can be told."""
    merged = merge_listed(listed("at", "customer.title"), order(*ORDER))
    assert list(in_table(merged)) == ["at"]
    assert paths_of("avro", merged.writers) == (
        "at",
        "customer",
        "customer.name",
        "customer.id",
        "note",
    )
