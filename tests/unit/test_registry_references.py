"""A schema and those that it refers to, made one."""

import json

import pytest

from tideline.registry.references import Document, Unresolvable, resolved, with_types_written_out


def record(name, *types, **more):
    fields = [{"name": f"f{n}", "type": t} for n, t in enumerate(types)]
    return {"type": "record", "name": name, **more, "fields": fields}


def written(schema, *others):
    return json.loads(with_types_written_out(json.dumps(schema), map(json.dumps, others)))


def names(schema):
    """Types of fields: a name, or what is defined there."""
    return [
        f["type"] if isinstance(f["type"], str) else f["type"].get("name") for f in schema["fields"]
    ]


def test_a_type_is_defined_where_it_is_used_first_and_named_after_that():
    """Arrays, maps and unions are uses as well."""
    item = record("Item", "int", namespace="n")
    schema = record(
        "R",
        {"type": "array", "items": "n.Item"},
        {"type": "map", "values": "n.Item"},
        ["null", "n.Item"],
        {"type": "n.Item"},
        namespace="n",
    )
    first, second, third, fourth = (f["type"] for f in written(schema, item)["fields"])
    assert first["items"] == item
    assert (second["values"], third, fourth) == ("n.Item", ["null", "n.Item"], {"type": "n.Item"})


def test_a_type_by_itself_may_be_a_reference():
    """A schema that is a name, or an object with a name as its type."""
    item = record("Item", namespace="n")
    assert written("n.Item", item) == item
    assert written({"type": "n.Item"}, item) == item


def test_names_belong_to_the_namespace_that_encloses_them():
    """Within a definition that is written out its own namespace holds, not the user's."""
    inner = {"type": "enum", "name": "Kind", "symbols": ["A"], "namespace": "a"}
    item = record("Item", "Kind", namespace="a")
    mine = {"type": "enum", "name": "Kind", "symbols": ["B"]}
    schema = record("R", mine, "a.Item", "Kind", namespace="b")
    kind, found, again = (f["type"] for f in written(schema, item, inner)["fields"])
    assert (kind, again) == (mine, "Kind")
    assert found["fields"][0]["type"]["symbols"] == ["A"]


def test_a_type_without_a_namespace_is_found_from_within_one():
    """As Java does."""
    item = record("Item")
    schema = record("R", "Item", namespace="b")
    assert written(schema, item)["fields"][0]["type"] == {**item, "namespace": ""}


def test_a_full_name_says_the_namespace():
    """Whatever else is given."""
    item = record("a.b.Item", "Other", namespace="ignored")
    other = {"type": "fixed", "name": "Other", "size": 2, "namespace": "a.b"}
    found = written(record("R", "a.b.Item"), item, other)["fields"][0]["type"]
    assert (found["name"], found["namespace"]) == ("Item", "a.b")
    assert found["fields"][0]["type"] == other


def test_a_type_within_a_type_is_found_and_defined_once():
    """Also if it is used before the type that contains it."""
    inner = record("Inner", "int")
    outer = record("Outer", inner, "Inner", namespace="n")
    found = written(record("R", "n.Inner", "n.Outer", "n.Inner"), outer)
    assert names(found) == ["Inner", "Outer", "n.Inner"]
    assert names(found["fields"][1]["type"]) == ["n.Inner", "Inner"]


def test_a_type_may_contain_itself():
    """It is known by its name from its first letter on."""
    tree = record("Tree", {"type": "array", "items": "Tree"}, namespace="n")
    assert written(record("R", "n.Tree"), tree)["fields"][0]["type"] == tree


def test_what_nobody_defines_stays():
    """The decoder says what is missing."""
    assert names(written(record("R", "n.Missing", "string"), record("Item"))) == [
        "n.Missing",
        "string",
    ]


def bundled(root, *references):
    document = Document("json", json.dumps(root), references)
    return json.loads(resolved(document, 1, "s:1").text)


def other(schema, *references):
    return Document("json", json.dumps(schema), references)


def test_a_part_of_another_document_is_pointed_to():
    """By `$id` and relative address, by whole address, and from document to document."""
    unit = other({"$id": "http://x/unit.json", "type": "string"})
    money = other(
        {"definitions": {"m": {"$ref": "http://x/unit.json#"}, "n": {"$ref": "#/definitions/m"}}},
        ("http://x/unit.json", unit),
    )
    root = {"$id": "http://x/order.json", "items": [{"$ref": "money.json#/definitions/n"}]}
    root |= {"not": {"$ref": "#/items/0"}, "else": {"$ref": "http://elsewhere/"}}
    found = bundled(root, ("money.json", money), ("http://x/unit.json", unit))
    assert found["items"][0]["$ref"] == "#/$defs/money.json/definitions/n"
    assert found["not"]["$ref"] == "#/items/0"
    assert found["else"]["$ref"] == "http://elsewhere/"
    parts = found["$defs"]["money.json"]["definitions"]
    assert parts["m"]["$ref"] == "#/$defs/http___x_unit.json"
    assert parts["n"]["$ref"] == "#/$defs/money.json/definitions/m"
    assert found["$defs"]["http___x_unit.json"] == {"type": "string"}


def test_names_in_defs_do_not_collide():
    """With the schema's own, or with each other's after characters were replaced."""
    one, two = other({"const": 1}), other({"const": 2})
    root = {"$defs": {"a_b": {"const": 0}}, "allOf": [{"$ref": "a/b"}, {"$ref": "a:b"}]}
    found = bundled(root, ("a/b", one), ("a:b", two))
    places = [item["$ref"].removeprefix("#/$defs/") for item in found["allOf"]]
    assert [found["$defs"][p]["const"] for p in ("a_b", *places)] == [0, 1, 2]


def test_data_is_no_reference_and_a_property_may_be_named_like_one():
    """Values of const, enum, default and examples; names of properties."""
    to_it = {"$ref": "a"}
    root = {"const": to_it, "enum": [to_it], "properties": {"enum": to_it, "$ref": to_it}}
    found = bundled(root, ("a", other(True)))
    assert (found["const"], found["enum"]) == (to_it, [to_it])
    moved = {"$ref": "#/$defs/a"}
    assert found["properties"] == {"enum": moved, "$ref": moved}
    assert found["$defs"] == {"a": True}


def test_imports_come_by_distance_and_each_once():
    """The file that imports stands before what it imports."""
    deep = Document("protobuf", "deep")
    left = Document("protobuf", "left", (("deep.proto", deep),))
    right = Document("protobuf", "right", (("deep.proto", deep),))
    root = Document("protobuf", "root", (("left.proto", left), ("right.proto", right)))
    schema = resolved(root, 5, "s:1")
    assert [n for n, _ in schema.references] == ["left.proto", "right.proto", "deep.proto"]
    assert (schema.text, schema.schema_type) == ("root", "protobuf")


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (
            Document(
                "protobuf",
                "r",
                (("a", Document("protobuf", "1")), ("a", Document("protobuf", "2"))),
            ),
            "two different files are imported as a",
        ),
        (Document("avro", '"x"', (("x", Document("json", "{}")),)), "another format"),
        (Document("avro", '"x"', (("x", Document("avro", "{")),)), "JSONDecodeError"),
        (Document("json", "{", (("x", Document("json", "{}")),)), "JSONDecodeError"),
        (
            Document("avro", '"x"', (("x", Document("avro", '{"type": "record"}')),)),
            "KeyError: 'name'",
        ),
        (Document("json", "[" * 100_000, (("x", Document("json", "{}")),)), "RecursionError"),
    ],
)
def test_what_does_not_fit_together_is_named(document, why):
    """Whoever asks the registry says which schema it is."""
    with pytest.raises(Unresolvable, match=why):
        resolved(document, 1, "s:1")


TEXTS = {
    "avro": lambda n: json.dumps(record(f"R{n}", *[f"R{n - 1}"] * 2 if n else [])),
    "json": lambda n: json.dumps({"items": [{"$ref": f"{side}{n}"} for side in "ab"]}),
    "protobuf": lambda n: f"message M{n} {{}}",
}


@pytest.mark.parametrize("format", TEXTS)
def test_references_that_double_at_every_level_are_followed_once(format):
    """Whoever may register schemas would otherwise hold up a run for ever: 2^100 ways."""
    schema = Document(format, TEXTS[format](0))
    for n in range(1, 101):
        schema = Document(format, TEXTS[format](n), ((f"a{n}", schema), (f"b{n}", schema)))
    whole = resolved(schema, 1, "s:1")
    assert len(whole.text) < 30_000
    assert len(whole.references) == (200 if format == "protobuf" else 0)


def test_of_two_definitions_the_one_referred_to_last_counts():
    """Depth first, wherever else it is referred to."""
    old, new = (Document("avro", json.dumps(record("Item", t))) for t in ("int", "long"))
    middle = Document("avro", json.dumps(record("Middle", "Item")), (("new", new),))
    root = json.dumps(record("R", "Item"))
    for references, kept in (
        ((old, middle), "long"),
        ((middle, old), "int"),
        ((new, middle, old), "int"),
    ):
        named = tuple((str(n), document) for n, document in enumerate(references))
        (field,) = json.loads(resolved(Document("avro", root, named), 1, "s:1").text)["fields"]
        assert field["type"]["fields"][0]["type"] == kept
