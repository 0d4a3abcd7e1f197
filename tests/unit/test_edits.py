"""What an edit of a live stream's file does: each key has an answer, and so has each section."""

import json

import pytest
from pydantic import BaseModel

from tideline.cli.main import main
from tideline.stream.edits import EFFECTS, WHEN, edits, effect_of
from tideline.stream.files import parse_stream
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
