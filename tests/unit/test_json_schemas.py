"""From JSON Schemas to columns and the reader schema."""

import json

import pytest

from tests.worlds.schemas import array, columns, mapping, merge, struct
from tideline.decoding.schemas.json_schema import SCHEMALESS
from tideline.decoding.schemas.schema_changes import Incompatible, NewField, Unusable


def schema(properties, **more):
    """A schema of objects."""
    return {"type": "object", "properties": properties, **more}


def columns_of(type_, **more):
    """The columns of a schema with one property."""
    return columns(merge("json", schema({"f": type_}, **more)))


def typed(name, **more):
    return {"type": name, **more}


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (typed("integer"), "long"),
        (typed("number"), "double"),
        (typed("boolean"), "boolean"),
        (typed("string"), "string"),
        (typed("string", format="date-time"), "timestamp"),
        (typed("string", format="date"), "date"),
        (typed("string", format="email"), "string"),
        (typed(["integer", "null"]), "long"),
        (typed(["integer", "number"]), "double"),
        (typed(["null", "string"], format="date"), "date"),
        (schema({"a": typed("integer"), "b c": typed("string")}), struct(a="long", b_c="string")),
        (typed("array", items=typed("integer")), array("long")),
        (typed("object", additionalProperties=typed("number")), mapping("double")),
        ({"enum": ["a", "b", None]}, "string"),
        ({"const": 5}, "long"),
        ({"oneOf": [typed("null"), typed("integer")]}, "long"),
        ({"anyOf": [typed("integer"), typed("number")]}, "double"),
        ({"oneOf": [typed("string"), typed("string", format="date-time")]}, "string"),
        ({"allOf": [typed("number"), {"minimum": 5}]}, "double"),
        (
            {"allOf": [schema({"a": typed("integer")}), schema({"b": typed("string")})]},
            struct(a="long", b="string"),
        ),
        (
            {"oneOf": [schema({"a": typed("integer")}), schema({"a": typed("string")})]},
            struct(a="string"),
        ),
        (
            {
                **schema({"a": typed("integer")}),
                "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            struct(a="long"),
        ),
        (
            {**schema({"a": typed("integer")}), "then": schema({"b": typed("integer")})},
            struct(a="long", b="long"),
        ),
    ],
)
def test_a_type_makes_a_column(type_, column):
    """As wide as JSON's own types."""
    assert columns_of(type_) == {"f": column}


@pytest.mark.parametrize(
    "type_",
    [
        {},
        True,
        typed(["integer", "string"]),
        {"oneOf": [typed("integer"), typed("string")]},
        {"oneOf": [typed("integer"), {}]},
        {"description": "anything"},
        typed("object"),
        {"enum": [1, "a"]},
        {"enum": [{"a": 1}]},
    ],
)
def test_what_has_no_type_is_kept_as_text(type_):
    """A string column with the value's JSON."""
    assert columns_of(type_) == {"f": "string"}
    text = merge("json", schema({"f": type_})).reader.text
    assert "type" not in json.loads(text)["properties"]["f"]


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (typed("array"), array("string")),
        (typed("array", prefixItems=[typed("integer"), typed("string")]), array("string")),
        (typed("array", items=[typed("integer")]), array("string")),
        (typed("object", additionalProperties={"type": ["integer", "string"]}), mapping("string")),
    ],
)
def test_so_are_items_and_values_without_a_type(type_, column):
    """The list or the map is still one."""
    assert columns_of(type_) == {"f": column}


@pytest.mark.parametrize("type_", [typed("null"), False])
def test_what_holds_nothing_makes_no_column(type_):
    """It gets one as soon as a schema lets it hold something."""
    assert columns_of(type_) == {}


@pytest.mark.parametrize(
    "defined",
    [
        {"$defs": {"money": typed("integer")}},
        {"definitions": {"money": typed("integer")}},
        {"$defs": {"other": typed("integer", **{"$id": "money"})}},
        {"$defs": {"other": typed("integer", **{"$anchor": "money"})}},
    ],
)
def test_references_inside_the_document_are_followed(defined):
    """By place, by the name under which a referenced schema is kept, by id, by anchor."""
    refs = {
        "$defs": "#/$defs/money",
        "definitions": "#/definitions/money",
    }
    (place,) = defined
    (inner,) = defined[place].values()
    ref = "money" if "$id" in inner else "#money" if "$anchor" in inner else refs[place]
    assert columns_of({"$ref": ref}, **defined) == {"f": "long"}


def test_a_reference_to_itself_is_text_from_there_on():
    """A tree of comments: its first level has columns."""
    node = schema({"text": typed("string"), "replies": typed("array", items={"$ref": "#"})})
    assert columns(merge("json", node)) == {
        "text": "string",
        "replies": array(struct(text="string", replies=array("string"))),
    }


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        (
            {"type": "object", "properties": {"a": {"$ref": "other.json"}}},
            "a",
            "$ref other.json leads",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "int"}}},
            "a",
            "no type of JSON Schema: int",
        ),
        ({"type": "object", "properties": []}, "", ""),
        ("[]", "", "it is no JSON Schema"),
        ("{", "", "it is not JSON"),
        ("[" * 100_000, "", "it is not JSON"),
    ],
)
def test_a_schema_that_makes_no_columns_is_named(text, field, reason):
    """It is left out, the others are merged."""
    merged = merge("json", text, schema({"good": typed("integer")}))
    if not reason:
        assert columns(merged) == {"good": "long"}
        return
    (misfit,) = merged.misfits
    assert isinstance(misfit, Unusable)
    assert (misfit.field, misfit.schema) == (field, "orders-value:1")
    assert misfit.reason.startswith(reason)
    assert columns(merged) == {"good": "long"}


def test_versions_merge_and_stay():
    """New fields come last, removed ones stay, merged again they change nothing."""
    first = merge("json", schema({"b": typed("integer"), "a": typed("string")}))
    second = merge(
        "json",
        schema({"c": typed("number"), "a": typed("string")}),
        previous=first.reader,
        first_id=2,
    )
    assert columns(second) == {"b": "long", "a": "string", "c": "double"}
    assert second.changes == (NewField("orders-value:2", "c", "c", "double"),)
    again = merge("json", schema({"a": typed("string")}), previous=second.reader, first_id=3)
    assert (again.reader, again.changes) == (second.reader, ())


@pytest.mark.parametrize(
    ("was", "becomes", "column"),
    [
        (typed("number"), typed("integer"), "double"),
        (typed("string"), typed("string", format="date-time"), "string"),
        (typed("string"), {}, "string"),
        ({}, typed("integer"), "string"),
        ({}, schema({"a": typed("integer")}), "string"),
    ],
)
def test_a_narrower_type_fits_a_wider_column(was, becomes, column):
    """The column stays what it is."""
    first = merge("json", schema({"f": was}))
    second = merge("json", schema({"f": becomes}), previous=first.reader, first_id=2)
    assert not second.misfits
    assert columns(second) == {"f": column}


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        (typed("integer"), typed("number")),
        (typed("integer"), typed("string")),
        (typed("integer"), {}),
        (typed("string", format="date"), typed("string")),
        (schema({"a": typed("integer")}), typed("array", items=typed("integer"))),
    ],
)
def test_a_type_that_does_not_fit_is_found(was, becomes):
    """A column's type never changes."""
    first = merge("json", schema({"f": was}))
    second = merge("json", schema({"f": becomes}), previous=first.reader, first_id=2)
    (misfit,) = second.misfits
    assert isinstance(misfit, Incompatible)
    assert (misfit.field, misfit.since) == ("f", "orders-value:1")
    assert second.reader == first.reader


def test_fields_that_differ_only_in_case_are_two_columns():
    """JSON tells them apart, tables do not."""
    merged = merge("json", schema({"id": typed("integer"), "ID": typed("string")}))
    assert [(c.name, c.field) for c in merged.reader.columns] == [("id", "id"), ("ID_2", "ID")]


def test_unknown_fields_are_refused_only_where_every_schema_does():
    """One that allows them may have written the record."""
    closed = schema({"a": typed("integer")}, additionalProperties=False)
    wider = schema({"b": typed("integer")}, additionalProperties=False)
    is_closed = [
        json.loads(merge("json", *schemas).reader.text).get("additionalProperties") is False
        for schemas in ((closed,), (closed, wider), (closed, schema({"b": typed("integer")})))
    ]
    assert is_closed == [True, True, False]


@pytest.mark.parametrize(
    ("document", "column"),
    [
        (typed("string"), "string"),
        (typed("array", items=typed("integer")), array("long")),
        (typed("object", additionalProperties=typed("integer")), mapping("long")),
        ({}, "string"),
    ],
)
def test_documents_that_are_no_objects_are_one_column(document, column):
    """`value`; the reader says that the document is its value."""
    merged = merge("json", document)
    assert columns(merged) == {"value": column}
    assert json.loads(merged.reader.text)["x-wrapped"] is True
    again = merge("json", document, previous=merged.reader)
    assert again.reader == merged.reader


@pytest.mark.parametrize("found", [{}, {"type": "string"}, {"type": "integer"}])
def test_somebody_else_s_word_makes_no_variant(found):
    """Only a part without any schema is one; it stays one when its reader is read again."""
    assert columns_of(found | {"x-variant": True}) == columns_of(found)
    merged = merge("json", json.loads(SCHEMALESS))
    assert columns(merged) == {"value": "variant"}
    again = merge("json", json.loads(SCHEMALESS), previous=merged.reader)
    assert (again.reader, again.changes) == (merged.reader, ())


@pytest.mark.parametrize(
    "malformed",
    [
        {"a": {"type": "string", "format": {}}},
        {"a": {"format": []}},
        {"a": {"type": {}}},
        {"a": {"$ref": "elsewhere#/a"}},
        {"a": {"$ref": "#/properties/a/b/0"}},
        {"a": {"type": "string", "x-since": []}},
    ],
)
def test_a_schema_of_any_form_is_read_or_left_out(malformed):
    """Whoever registers it cannot end a run that knows a good one."""
    good = {"properties": {"id": {"type": "integer"}}}
    merged = merge("json", good, {"properties": malformed, "$defs": "none", "definitions": 5})
    assert columns(merged)["id"] == "long"


def test_six_thousand_anchors_are_looked_for_once():
    """Each reference would otherwise go through the whole document."""
    names = [f"a{n}" for n in range(6_000)]
    defined = {name: {"$anchor": name, "type": "integer"} for name in names}
    items = [{"properties": {"x": {"$ref": f"#{name}"}}} for name in names]
    merged = merge("json", {"$defs": defined, "allOf": items})
    assert columns(merged) == {"x": "long"}
