"""Typed tables of Protobuf from real topics: with a real registry, and with a schema file."""

import pytest

from devstack.protobuf_messages import message_class
from tests.worlds.protobuf_schemas import PROTO3
from tests.worlds.raw_tables import framing
from tests.worlds.typed_streams import Typed

MONEY = PROTO3 + "message Money { int64 units = 1; string currency = 2; }\n"
V1 = PROTO3 + 'import "money.proto";\nmessage Order { int32 id = 1; Money price = 2; }\n'
V2 = PROTO3 + (
    'import "money.proto";\nmessage Note { string text = 1; }\n'
    "message Order { int64 number = 1; Money price = 2; optional string note = 3; }\n"
)
WRONG = PROTO3 + "message Order { string id = 1; }\n"
ID = PROTO3 + "message Id { string id = 1; }\n"
IMPORTS = (("money.proto", MONEY),)


@pytest.fixture
def typed(harness, registry, spark, request):
    return lambda **decode: Typed(
        harness, registry, spark, request.node.name.removeprefix("test_")[:40], **decode
    )


def order(text, **fields):
    return message_class(text, "shop.Order", IMPORTS)(**fields).SerializeToString()


def test_records_of_two_schemas_with_references(typed, registry):
    """A bad one and a tombstone beside them; a clear decodes alike after the schema has moved."""
    at = typed()
    at.section["value"] |= {"format": "protobuf"}
    registry.register(f"{at.subject}-money", MONEY, "PROTOBUF")
    references = [("money.proto", f"{at.subject}-money", 1)]
    first = registry.register(at.subject, V1, "PROTOBUF", references)
    at.send_bytes(framing(first) + b"\0" + order(V1, id=1, price={"units": 5, "currency": "EUR"}))
    at.run("one")
    assert at.rows("id", "price") == [(0, 0, 1, {"units": 5, "currency": "EUR"})]

    second = registry.register(at.subject, V2, "PROTOBUF", references)
    at.send_bytes(
        framing(second) + b"\x02\x02" + order(V2, number=2**40, note=""),
        framing(first) + b"\0" + order(V1, id=3),
        framing(second) + b"\0" + b"\x0a\x04text",
        None,
        framing(second) + b"\x02\x02\xff",
    )
    at.run("two")
    expected = [
        (0, 0, 1, {"units": 5, "currency": "EUR"}, None, False),
        (0, 1, 2**40, None, "", False),
        (0, 2, 3, None, None, False),
        (0, 4, None, None, None, True),
    ]
    columns = ("id", "price", "note", "is_tombstone")
    assert at.rows(*columns) == expected
    bad = [(0, 3, "type_mismatch"), (0, 5, "malformed")]
    assert at.bad("error_class") == bad
    for run_id in ("one", "two"):
        at.decode(run_id)
        assert (at.rows(*columns), at.bad("error_class")) == (expected, bad)


def test_keys_by_a_schema_file_that_imports_another(typed, registry, tmp_path):
    """Beside values of another format, and values of a third one that do not belong here."""
    (tmp_path / "ids").mkdir()
    (tmp_path / "ids/id.proto").write_text(ID)
    file = tmp_path / "key.proto"
    file.write_text(PROTO3 + 'import "ids/id.proto";\nmessage Key { Id id = 1; }\n')
    key = {"format": "protobuf", "schema": str(file), "message": "shop.Key"}
    at = typed(key=key)
    text = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}'
    schema_id = registry.register(at.subject, text)
    at.send_bytes(framing(schema_id) + b"\x04", key=b"\x0a\x03\x0a\x01k")
    at.send_bytes(framing(schema_id) + b"\x06", key=b"\x0a\x03")
    at.run("one")
    assert at.rows("id", "key_id") == [(0, 0, 2, {"id": "k"})]
    assert at.bad("part", "error_class") == [(0, 1, "key", "malformed")]
    other = registry.register(f"{at.subject}-json", '{"type": "object", "properties": {}}', "JSON")
    at.send_bytes(framing(other) + b"{}", framing(schema_id) + b"\x08", key=b"")
    at.run("two")
    assert at.rows("id", "key_id")[1:] == [(0, 3, 4, None)]
    assert at.bad("part", "error_class")[1:] == [(0, 2, "value", "wrong_subject")]
