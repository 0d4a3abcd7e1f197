"""From Protobuf's schemas to columns and the merged fields."""

import json

import pytest

from tests.worlds.protobuf_schemas import PROTO2, PROTO3, merge
from tests.worlds.schemas import array, columns, mapping, struct
from tideline.decoding.schemas.merging import paths_of
from tideline.decoding.schemas.schema_changes import Incompatible, NewField, Unusable
from tideline.model.decoding import FieldChoice

IMPORTS = "".join(
    f'import "google/{name}.proto";\n'
    for name in ("protobuf/timestamp", "protobuf/wrappers", "protobuf/duration", "type/date")
)
TYPES = (
    "enum E { A = 0; B = 1; }\nmessage Nothing {}\nmessage In { string a = 1; Nothing n = 2; }\n"
)


def message(fields, head=PROTO3, name="Order"):
    return f"{head}message {name} {{ {fields} }}\n"


def the_misfit(merged):
    (misfit,) = merged.misfits
    return misfit


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        *((kind, "long") for kind in ("int32", "sint32", "sfixed32", "uint32", "fixed32")),
        *((kind, "long") for kind in ("int64", "sint64", "sfixed64")),
        ("uint64", "decimal(20,0)"),
        ("fixed64", "decimal(20,0)"),
        ("float", "double"),
        ("double", "double"),
        ("bool", "boolean"),
        ("string", "string"),
        ("bytes", "binary"),
        ("E", "string"),
        ("optional int32", "long"),
        ("repeated uint64", array("decimal(20,0)")),
        ("map<int64, float>", mapping("double")),
        ("map<string, In>", mapping(struct(a="string"))),
        ("In", struct(a="string")),
        ("repeated In", array(struct(a="string"))),
        ("google.protobuf.Timestamp", "timestamp"),
        ("google.protobuf.UInt64Value", "decimal(20,0)"),
        ("repeated google.protobuf.StringValue", array("string")),
        ("google.protobuf.Duration", struct(seconds="long", nanos="long")),
        ("google.type.Date", struct(year="long", month="long", day="long")),
    ],
)
def test_a_type_makes_a_column(type_, column):
    """Wide from the start: a column cannot be widened later."""
    text = message(f"{type_} f = 1;", PROTO3 + IMPORTS + TYPES)
    assert columns(merge(text, message="shop.Order")) == {"f": column}


def test_what_holds_nothing_makes_no_column():
    """Messages without fields, lists and maps of them, and extensions."""
    fields = "repeated Nothing a = 1; map<string, Nothing> b = 2; Nothing c = 3;"
    assert columns(merge(message(fields, PROTO3 + TYPES), message="shop.Order")) == {}
    old = (
        message("optional int32 a = 1; extensions 5;", PROTO2)
        + "extend Order { optional int32 b = 5; }"
    )
    assert columns(merge(old)) == {"a": "long"}


def test_a_oneof_is_its_fields():
    """A group is a record, and an edition reads like the others."""
    assert columns(merge(message("oneof x { int32 a = 1; string b = 2; }"))) == {
        "a": "long",
        "b": "string",
    }
    group = message("repeated group Item = 1 { optional string sku = 2; }", PROTO2)
    assert columns(merge(group)) == {"item": array(struct(sku="string"))}
    edition = 'edition = "2023";\npackage shop;\n'
    assert columns(merge(message("int32 a = 1;", edition))) == {"a": "long"}


VERSIONS = (
    message("int32 id = 1; string note = 2;"),
    message("int64 id = 1; In at = 4; uint32 n = 5;", PROTO3 + TYPES),
    message("int32 id = 1; string remark = 2; float n = 3;"),
)


def test_versions_merge_into_fields_that_stay():
    """Every version fits; merged again, alone or together, they change nothing."""
    merged = merge(*VERSIONS, message="shop.Order")
    assert not merged.misfits
    in_ = struct(a="string")
    expected = {"id": "long", "note": "string", "at": in_, "n": "long", "n_2": "double"}
    assert columns(merged) == expected
    again = merge(*VERSIONS, previous=merged.reader, message="shop.Order")
    assert (again.reader, again.changes) == (merged.reader, ())
    for number, text in enumerate(VERSIONS):
        alone = merge(text, previous=merged.reader, first_id=number + 1, message="shop.Order")
        assert (alone.reader, alone.changes) == (merged.reader, ())


def test_a_number_keeps_its_column_whatever_its_name_is():
    """Two fields that change their names keep their values apart, in nested messages, too."""
    inner = PROTO3 + "message In {{ int32 {} = 1; int32 {} = 2; }}\n"
    texts = message("In in = 1; int32 a = 2;", inner.format("x", "y"))
    first = merge(texts, message="shop.Order")
    second = message("In it = 1; int32 b = 2;", inner.format("y", "x"))
    merged = merge(second, previous=first.reader, first_id=2, message="shop.Order")
    assert (merged.reader, merged.changes) == (first.reader, ())


def test_a_listed_field_is_found_under_its_first_name():
    """The list names it as the table does, whatever later schemas call it."""
    inner = PROTO3 + "message In {{ string {} = 1; int32 z = 2; }}\n"
    choices = [FieldChoice("in.x"), FieldChoice("a", "amount")]
    texts = message("In in = 1; int32 a = 2; int32 c = 3;", inner.format("x"))
    first = merge(texts, message="shop.Order", fields=choices)
    assert [(c.name, c.type) for c in first.reader.in_table] == [
        ("in_x", "string"),
        ("amount", "long"),
    ]
    second = message("In it = 1; int32 b = 2; int32 d = 4;", inner.format("y"))
    again = {"message": "shop.Order", "fields": choices, "first_id": 2}
    merged = merge(second, previous=first.reader, **again)
    assert (merged.reader, merged.changes) == (first.reader, ())
    assert paths_of("protobuf", merged.writers) == ("it", "it.y", "it.z", "b", "d")


def test_a_name_under_another_number_is_another_field():
    """The old column stays, and the new one says so."""
    first = merge(message("int32 a = 1;"))
    merged = merge(message("string a = 2; int32 A = 3;"), previous=first.reader, first_id=2)
    assert columns(merged) == {"a": "long", "a_2": "string", "A_3": "long"}
    assert merged.changes == (
        NewField("orders-value:2", "a_2", "a_2", "string"),
        NewField("orders-value:2", "A_3", "A_3", "long"),
    )


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("uint64", "int64"),
        ("uint64", "int32"),
        ("int64", "uint32"),
        ("double", "float"),
        ("double", "int32"),
        ("double", "int64"),
        ("string", "E"),
        ("E", "string"),
        ("string", "bytes"),
        ("bytes", "string"),
        ("int64", "google.protobuf.Int64Value"),
        ("int32", "optional int32"),
    ],
)
def test_a_type_that_fits_its_column(was, becomes):
    """The column does not change."""
    head = PROTO3 + IMPORTS + TYPES
    first = merge(message(f"{was} f = 1;", head), message="shop.Order")
    second = message(f"{becomes} f = 1;", head)
    merged = merge(second, previous=first.reader, first_id=2, message="shop.Order")
    assert (merged.misfits, columns(merged)) == ((), columns(first))


@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("int64", "uint64"),
        ("int64", "string"),
        ("int64", "double"),
        ("int32", "E"),
        ("bool", "int32"),
        ("string", "repeated string"),
        ("string", "In"),
        ("int64", "google.protobuf.Timestamp"),
        ("map<string, int32>", "repeated int32"),
    ],
)
def test_a_number_that_gets_another_type_does_not_fit(was, becomes):
    """It is left out as a whole, and told with both schemas."""
    first, second = (message(f"{t} f = 1;", PROTO3 + IMPORTS + TYPES) for t in (was, becomes))
    merged = merge(first, message="shop.Order")
    misfit = the_misfit(merge(first, second, previous=merged.reader, message="shop.Order"))
    assert isinstance(misfit, Incompatible)
    assert (misfit.field, misfit.since, misfit.schema_id) == ("f", "orders-value:1", 2)
    assert (misfit.known_text, misfit.found_text) == (first, second)


def test_the_message_is_the_first_one_of_the_first_schema():
    """By its name from then on; a schema without that name has renamed it."""
    first = merge(message("int32 a = 1;"))
    assert json.loads(first.writers[0].text)["messages"] == {"shop.Order": [0]}
    before = message("string x = 9;", name="Before")
    behind = before + message("int32 b = 2;", "")
    merged = merge(behind, previous=first.reader, first_id=2)
    assert columns(merged) == {"a": "long", "b": "long"}
    told = json.loads(merged.writers[0].text)
    assert (told["message"], told["messages"]["shop.Order"]) == ("shop.Order", [1])
    renamed = merge(message("int32 c = 3;", name="Purchase"), previous=first.reader, first_id=3)
    assert json.loads(renamed.writers[0].text)["message"] == "shop.Purchase"


NESTED = (
    "message A { map<string, int32> m = 1; message B { int32 b = 1; } }\n"
    "message C { int32 c = 1; }\n"
)


@pytest.mark.parametrize(
    ("name", "fields"), [("shop.C", {"c": "long"}), ("shop.A.B", {"b": "long"})]
)
def test_a_message_is_found_by_its_full_name(name, fields):
    """Messages of maps have no index."""
    merged = merge(PROTO3 + NESTED, message=name)
    assert columns(merged) == fields
    indexes = {"shop.A": [0], "shop.C": [1], "shop.A.B": [0, 0]}
    assert json.loads(merged.writers[0].text)["messages"] == indexes


@pytest.mark.parametrize(
    ("text", "wanted", "said"),
    [
        (
            PROTO3 + NESTED,
            "shop.D",
            "it has no message shop.D; there are: shop.A, shop.C, shop.A.B",
        ),
        (PROTO3, None, "it has no message"),
        (PROTO3 + "message A { B b = 1; }", None, 'schema.proto:3:13: "B" is not defined.'),
        ('syntax = "proto3"; import "gone.proto";', None, "gone.proto: File not found."),
        (PROTO3 + "message A { A a = 1; }", None, "the message shop.A contains itself"),
        ('syntax = "proto9";', None, "protoc refuses it"),
        ("", None, "it has no message"),
    ],
)
def test_a_schema_that_no_columns_can_be_made_of(text, wanted, said):
    """Protoc's own words, by the files' own names."""
    misfit = the_misfit(merge(text, message=wanted))
    assert isinstance(misfit, Unusable)
    assert said in misfit.reason


def test_a_schema_that_contains_itself_far_inside():
    """The place is named."""
    text = (
        PROTO3 + "message A { B b = 1; } message B { repeated C c = 1; } "
        "message C { map<int32, B> d = 1; }"
    )
    assert the_misfit(merge(text)).field == "b.c.[].d.{}"
