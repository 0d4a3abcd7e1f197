"""Protobuf's files: what they import, and how they are compiled."""

import subprocess
import tempfile
from base64 import b64encode

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from tests.worlds.protobuf_schemas import PROTO3, writer
from tideline.model.decoding import SchemaUnusable
from tideline.registry.protobuf_files import compiled_protobuf, imported_files

UNIT = PROTO3 + "message Unit { string name = 1; }\n"
MONEY = PROTO3 + 'import public "parts/unit.proto";\nmessage Money { Unit unit = 1; }\n'
ORDER = PROTO3 + 'import "money.proto";\nmessage Order { Money price = 1; Unit unit = 2; }\n'
GIVEN = ("decimal", "variant")


def files_of(schema):
    return [f.name for f in FileDescriptorSet.FromString(compiled_protobuf(schema)).file]


def test_references_are_compiled_as_well():
    """Imports first, in folders if their names say so."""
    schema = writer(1, ORDER, [("money.proto", MONEY), ("parts/unit.proto", UNIT)])
    assert files_of(schema) == ["parts/unit.proto", "money.proto", "schema.proto"]


def test_the_schema_s_own_name_is_free():
    """A reference may have it."""
    order = PROTO3 + 'import "schema.proto";\nmessage Order { Unit unit = 1; }\n'
    assert files_of(writer(1, order, [("schema.proto", UNIT)])) == ["schema.proto", "_schema.proto"]


def test_what_protoc_has_made_stands_for_a_source():
    """So Confluent's clients register it: for a whole schema, or for a file that it imports."""
    texts = {"parts/unit.proto": UNIT, "money.proto": MONEY, "schema.proto": ORDER}
    imports = [(n, text) for n, text in texts.items() if n != "schema.proto"]
    sources = compiled_protobuf(writer(1, ORDER, imports))
    files = FileDescriptorSet.FromString(sources).file
    made = {f.name: b64encode(f.SerializeToString()).decode() for f in files}
    for given in ({**texts, **made}, {**texts, "money.proto": made["money.proto"]}):
        imports = [(n, text) for n, text in given.items() if n != "schema.proto"]
        assert compiled_protobuf(writer(1, given["schema.proto"], imports)) == sources


def test_what_confluents_clients_take_for_given():
    """Under both names that they have given it."""
    names = [f"confluent/{of}/{name}.proto" for of in ("type", "types") for name in GIVEN]
    lines = "".join(f'import "{name}";\n' for name in ["confluent/meta.proto", *names])
    fields = "confluent.type.Decimal price = 1; confluent.type.Variant any = 2;"
    found = files_of(writer(1, f"{PROTO3}{lines}message Order {{ {fields} }}\n"))
    assert {*names} < {*found}


@pytest.mark.parametrize(
    "name", ["../up.proto", "/etc/up.proto", "a/../../up.proto", "", "a\0", "a" * 999]
)
def test_a_reference_does_not_leave_its_folder(name):
    """Its name is the registry's word."""
    with pytest.raises(SchemaUnusable, match="has to be a path below"):
        compiled_protobuf(writer(1, UNIT, [(name, UNIT)]))


def test_a_reference_that_is_a_file_and_a_folder():
    """No two files lie so; the schema is refused, not the run."""
    with pytest.raises(SchemaUnusable, match="cannot be files"):
        compiled_protobuf(writer(1, UNIT, [("a", UNIT), ("a/b.proto", UNIT)]))


def test_nothing_lies_where_others_could_have_put_a_link(tmp_path, monkeypatch):
    """The folder's name can be seen in /tmp while protoc runs; what is written is inside of it."""
    made, run = [], subprocess.run

    def watched(command, **options):
        made.extend(tmp_path.iterdir())
        done = run(command, **options)
        made.extend(tmp_path.iterdir())
        return done

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", watched)
    assert files_of(writer(1, PROTO3 + "message Watched {}")) == ["schema.proto"]
    before, *after = made
    assert after == [before]
    assert not list(tmp_path.iterdir())


def test_a_schema_file_imports_what_lies_beside_it(tmp_path):
    """All levels, once each, in a circle as well; what is missing is left to protoc."""
    (tmp_path / "parts").mkdir()
    (tmp_path / "money.proto").write_text(MONEY)
    (tmp_path / "parts/unit.proto").write_text(UNIT + 'import "money.proto";')
    (tmp_path.parent / "outside.proto").write_text(UNIT)
    text = ORDER + 'import "../outside.proto";\nimport "google/protobuf/any.proto";\n'
    found = imported_files(tmp_path, text)
    assert [name for name, _ in found] == ["money.proto", "parts/unit.proto"]
