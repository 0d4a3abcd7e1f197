"""What an edit of a live stream's file does: each key has an answer, and so has each section."""

import json

import pytest
from pydantic import BaseModel

from tideline.cli.main import main
from tideline.stream.edits import EFFECTS, FLEET_EFFECTS, WHEN, edits, effect_of
from tideline.stream.files import parse_stream
from tideline.stream.fleet_file import Fleet
from tideline.stream.parsing import types_in
from tideline.stream.stream import Stream

FILE = """
stream: orders
kafka: {connection: k, topics: [a]}
table: {uri: /lake/orders}
schedule: "@daily"
"""


def keys(model, at=()):
    for name, field in model.model_fields.items():
        inner = [c for c in types_in(field.annotation) if issubclass(c, BaseModel)]
        here = (*at, field.alias or name)
        yield ".".join(here)
        for section in inner:
            yield from keys(section, here)


def test_every_key_has_an_answer_and_no_answer_is_left_over():
    known = set(keys(Stream))
    for key in known:
        if key not in ("kafka", "table", "decode.table", "decode.quarantine", "current.table"):
            assert effect_of(key)[0] in WHEN, key
    assert set(EFFECTS) <= known


@pytest.mark.parametrize(
    ("old", "new", "key", "when"),
    [
        ("@daily", "@hourly", "schedule", "parse"),
        ("topics: [a]", "topics: [a, b]", "kafka.topics", "next_run"),
        ("/lake/orders", "/lake/other", "table.uri", "refused"),
        ("stream: orders", "stream: other", "stream", "refused"),
        ("schedule", "limits: {max_records_per_run: 7}\nschedule", "limits", "next_run"),
        (
            "schedule",
            "decode: {value: {format: json}}\nschedule",
            "decode",
            "next_run",
        ),
    ],
)
def test_an_edit(old, new, key, when):
    one, other = (parse_stream(text, "f") for text in (FILE, FILE.replace(old, new, 1)))
    (found,) = edits(one, other)
    assert (found.key.startswith(key), found.when) == (True, when)


TYPED = (
    FILE
    + """
registry: {}
decode:
  value:
    format: avro
    types:
      - {type: paid, record: Paid, expect: [{name: known, sql: id > 0}]}
  tombstones: drop
"""
)


@pytest.mark.parametrize(
    ("old", "new", "key", "text"),
    [
        ("id > 0", "id > 1", "paid.expect.known.sql", "redrive FILE --class expectation"),
        ("record: Paid", "record: Bought", "paid.record", "redrive FILE --class other_type"),
        ("record: Paid", "record: Paid, fields: [id]", "paid.fields", "decode FILE --again"),
        ("record: Paid", "record: Paid, ended: true", "paid.ended", "gives it no more rows"),
    ],
)
def test_an_edit_of_an_event_type(old, new, key, text):
    """It is told what to do for that key, not what a new type asks for."""
    one, other = (parse_stream(text, "f") for text in (TYPED, TYPED.replace(old, new, 1)))
    (found,) = edits(one, other)
    assert found.key == f"decode.value.types.{key}"
    assert text in found.text


FLEET = """\
fleet: shop
topic_pattern: shop\\..*
shards: 2
stream:
  stream: "{topic}"
  table: {uri: "/lake/{topic}"}
overrides:
  shop.a.b: {limits: {max_records_per_run: 7}}
"""


@pytest.mark.parametrize(
    ("old", "new", "key", "when"),
    [
        ("shards: 2", "shards: 6", "shards", "parse"),
        ("shop\\..*", "shop\\.a.*", "topic_pattern", "next_run"),
        ("fleet: shop", "fleet: other", "fleet", "refused"),
        ("/lake/{topic}", "/other/{topic}", "stream.table.uri", "refused"),
        ("_run: 7", "_run: 8", "overrides.shop.a.b.limits.max_records_per_run", "next_run"),
        ("shards: 2", "shards: 2\nleave_out: [shop.x]", "leave_out", "next_run"),
        ("shards: 2", "shards: 2\nnames: {shop.x: y}", "names.shop.x", "refused"),
    ],
)
def test_an_edit_of_a_fleet(tmp_path, capsys, old, new, key, when):
    one, other = tmp_path / "old.yaml", tmp_path / "shop.yaml"
    one.write_text(FLEET)
    other.write_text(FLEET.replace(old, new, 1))
    assert main(["diff", "--json", str(one), str(other)]) == (2 if when == "refused" else 0)
    (found,) = json.loads(capsys.readouterr().out)["edits"]
    assert (found["key"], found["when"]) == (key, when)


def test_every_key_of_a_fleet_has_an_effect():
    assert {*FLEET_EFFECTS} == {*Fleet.model_fields}


def test_an_old_file_of_another_folder_takes_its_schemas_from_beside_the_new_one(tmp_path, capsys):
    """As `git show` writes it; an expectation that differs is told by its own keys."""
    new = tmp_path / "streams" / "orders.yaml"
    new.parent.mkdir()
    (new.parent / "value.json").write_text('{"type": "object", "properties": {}}')
    rule = '{name: given, sql: "a is not null", on_fail: halt}'
    decode = f"decode: {{value: {{format: json, schema: value.json}}, expect: [{rule}]}}\n"
    new.write_text(FILE + decode)
    old = tmp_path / "old.yaml"
    old.write_text(FILE + decode.replace("halt", "count"))
    assert main(["diff", "--json", str(old), str(new)]) == 0
    (found,) = json.loads(capsys.readouterr().out)["edits"]
    assert (found["key"], found["old"], found["new"]) == (
        "decode.expect.given.on_fail",
        "count",
        "halt",
    )


def test_a_command_says_it(tmp_path, capsys):
    """By its exit status as well."""
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(FILE)
    new.write_text(FILE)
    assert main(["diff", str(old), str(new)]) == 0
    assert "no key differs" in capsys.readouterr().out
    new.write_text(FILE.replace("@daily", "@hourly").replace("[a]", "[b]"))
    assert main(["diff", str(old), str(new)]) == 0
    said = capsys.readouterr().out
    assert "as soon as Airflow has parsed the file" in said
    assert "kafka.topics: a new topic begins as `start` says" in said
    new.write_text(FILE.replace("/lake/orders", "/lake/other"))
    assert main(["diff", "--json", str(old), str(new)]) == 2
    (edit,) = json.loads(capsys.readouterr().out)["edits"]
    assert (edit["key"], edit["new"], edit["when"]) == ("table.uri", "/lake/other", "refused")
    new.write_text("stream: [")
    assert main(["diff", str(old), str(new)]) == 2
