"""What every schema registry answers through its port: `RegistryPort`, over each kind of world."""

import hashlib
import json

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tests.worlds.registries import WORLDS, fake_world, real_world
from tideline.errors import RegistryMisused
from tideline.registry.protobuf_files import compiled_protobuf
from tideline.registry.registry_port import SubjectVersion

PROTO = 'syntax = "proto3";\npackage shop;\n'


@pytest.fixture(params=WORLDS)
def world(request):
    """A registry without subjects of this test."""
    made = (
        fake_world() if request.param == "fake" else real_world(request.getfixturevalue("registry"))
    )
    with made as found:
        yield found


def record(name, *fields, **more):
    return {"type": "record", "name": name, **more, "fields": [*map(field, fields)]}


def own(world, name):
    """A type's name that no other test registers: equal texts have one id."""
    return world.name(name).replace("-", "_")


def field(given):
    name, kind = given
    return {"name": name, "type": kind}


def found(world, schema_id, suffix):
    """The schema of an id as the first version of a subject."""
    return world.port.schema(schema_id, SubjectVersion(world.name(suffix), 1))


def test_a_schema_is_found_by_its_id(world):
    """As it was registered, to the letter."""
    text = json.dumps(record(own(world, "Order"), ("id", "long")), indent=1)
    schema_id = world.register("orders-value", text)
    schema = found(world, schema_id, "orders-value")
    assert (schema.schema_id, schema.text, schema.schema_type) == (schema_id, text, "avro")
    assert schema.digest == hashlib.sha256(text.encode()).hexdigest()
    assert schema.known_as == f"{world.name('orders-value')}:1"
    assert schema.references == ()


def test_an_id_that_was_never_given_out_has_no_schema(world):
    """It is an answer, not an error: such records go into quarantine."""
    for schema_id in (2_000_000_000, 2**31 - 1, 0):
        assert found(world, schema_id, "orders-value") is None
        assert world.port.subjects_of(schema_id, world.name("orders-value")) == ()


def test_the_latest_version_is_the_newest(world):
    """Its id finds the same schema."""
    for names in (("a",), ("a", "b"), ("a", "b", "c")):
        schema = record(own(world, "R"), *((n, ["null", "int"]) for n in names))
        schema_id = world.register("orders-value", schema)
    version, newest = world.port.latest(world.name("orders-value"))
    assert version == SubjectVersion(world.name("orders-value"), 3)
    assert (newest.schema_id, newest.known_as) == (schema_id, str(version))
    assert newest == world.port.schema(schema_id, version)


def test_an_unknown_subject_is_named(world):
    """A typing error in the stream file."""
    with pytest.raises(RegistryMisused) as caught:
        world.port.latest(world.name("nowhere"))
    assert world.name("nowhere") in str(caught.value)
    assert caught.value.subject == world.name("nowhere")


def test_a_subject_may_have_any_characters(world):
    """Slashes, dots, blanks and letters of other languages."""
    schema_id = world.register("a/b.c d-ü%2F", '"string"')
    version, schema = world.port.latest(world.name("a/b.c d-ü%2F"))
    assert (version.subject, schema.schema_id) == (world.name("a/b.c d-ü%2F"), schema_id)
    assert version in world.port.subjects_of(schema_id, version.subject)


def test_an_id_belongs_to_all_its_subjects(world):
    """The same text registered elsewhere keeps its id."""
    schema = record(own(world, "Shared"), ("x", "int"))
    first = world.register("b-value", schema)
    assert world.register("a-value", schema) == first
    expected = tuple(SubjectVersion(world.name(n), 1) for n in ("a-value", "b-value"))
    assert world.port.subjects_of(first, expected[1].subject) == expected
    assert [world.port.schema(first, v).known_as for v in expected] == [*map(str, expected)]


def test_a_deleted_subject_keeps_its_ids(world):
    """Its records are still in the log."""
    schema = record(own(world, "Gone"), ("x", "int"))
    schema_id = world.register("gone-value", schema)
    world.delete("gone-value")
    version = SubjectVersion(world.name("gone-value"), 1)
    assert world.port.schema(schema_id, version).text == json.dumps(schema)
    assert world.port.subjects_of(schema_id, version.subject) == (version,)
    with pytest.raises(RegistryMisused, match="does not know the subject"):
        world.port.latest(world.name("gone-value"))


def test_an_id_that_was_deleted_for_good_is_unknown(world):
    """So a plan needs the schemas that the ledger keeps."""
    schema_id = world.register("bad-value", record(own(world, "Bad")))
    world.delete("bad-value", for_good=True)
    assert found(world, schema_id, "bad-value") is None
    assert world.port.subjects_of(schema_id, world.name("bad-value")) == ()


def test_types_of_other_avro_schemas_are_written_out(world):
    """All levels, each once, where it is used first."""
    street = record("Street", ("name", "string"), namespace="geo")
    address = record("Address", ("street", "Street"), ("other", "Street"), namespace="geo")
    world.register("street", street)
    world.register("address", address, references=[("geo.Street", "street", 1)])
    order = record(
        "Order", ("ship", "geo.Address"), ("bill", ["null", "geo.Address"]), namespace="shop"
    )
    schema_id = world.register("order", order, references=[("geo.Address", "address", 1)])
    schema = found(world, schema_id, "order")
    written = json.loads(schema.text)
    ship, bill = (f["type"] for f in written["fields"])
    assert (ship["name"], ship["namespace"]) == ("Address", "geo")
    assert bill == ["null", "geo.Address"]
    first, second = (f["type"] for f in ship["fields"])
    assert (first["name"], second) == ("Street", "Street")
    assert schema.digest == hashlib.sha256(schema.text.encode()).hexdigest()
    assert schema.references == ()
    assert world.port.latest(world.name("order"))[1].text == schema.text


def test_other_json_schemas_are_in_defs(world):
    """Every `$ref` leads to a place in the same document."""
    inner = {"type": "object", "properties": {"zip": {"$ref": "#/definitions/zip"}}}
    world.register("inner", inner | {"definitions": {"zip": {"type": "string"}}}, "JSON")
    outer = {"type": "object", "properties": {"at": {"$ref": "inner.json"}}}
    references = [("inner.json", "inner", 1)]
    schema = found(world, world.register("outer", outer, "JSON", references), "outer")
    assert schema.schema_type == "json"
    assert json.loads(schema.text) == {
        "type": "object",
        "properties": {"at": {"$ref": "#/$defs/inner.json"}},
        "$defs": {
            "inner.json": {
                "type": "object",
                "properties": {"zip": {"$ref": "#/$defs/inner.json/definitions/zip"}},
                "definitions": {"zip": {"type": "string"}},
            }
        },
    }


def test_imports_of_protobuf_come_along(world):
    """All levels, the importing file first; the text stays as it is."""
    unit = PROTO + "message Unit { string name = 1; }\n"
    money = PROTO + 'import "unit.proto";\nmessage Money { Unit unit = 1; }\n'
    order = PROTO + 'import "money.proto";\nmessage Order { Money price = 1; }\n'
    world.register("unit", unit, "PROTOBUF")
    world.register("money", money, "PROTOBUF", [("unit.proto", "unit", 1)])
    schema_id = world.register("order", order, "PROTOBUF", [("money.proto", "money", 1)])
    schema = found(world, schema_id, "order")
    assert (schema.text, schema.schema_type) == (order, "protobuf")
    assert schema.references == (("money.proto", money), ("unit.proto", unit))
    files = FileDescriptorSet.FromString(compiled_protobuf(schema)).file
    assert [f.name for f in files] == ["unit.proto", "money.proto", "schema.proto"]
