"""What producers really write: cases as data, each through the commands, on a real broker."""

import json
from dataclasses import replace

import pytest

from tests.worlds.wire import CASES, Played, registry_of
from tideline.model.decoding import DECODER_FORM
from tideline.stream.files import read_stream
from tideline.wiring import open_ledger

NAMES = sorted(path.stem for path in CASES.glob("*.json"))
QUICK = {
    *(
        "02e-key-null-payload",
        "02h-null-op",
        "05b-delete-defaults-of-columns",
        "05g-flattened-delete",
    ),
    *("06b-snapshot-text-becomes-boolean", "07b-protobuf-confluent-decimal", "08-long-keys"),
    *("10d-contexts-same-id-in-the-default", "11-19-24-other-framings", "13a-reference-gone"),
    *("14b-tombstones-not-null-named", "16a-enum-becomes-string", "18-createtime-minus-one"),
    *("21c-relative-inner-id", "34-unlisted-field-that-makes-no-column"),
    *("17a-types-by-record", "17f-types-in-json", "17g-a-type-that-is-added"),
    "17l-a-type-without-records-and-the-id-of-a-key",
    *("N1-event-time-connect-first-run", "N2d-nullable-root-that-is-null"),
}
"""At least one of each class; the others are slow tests."""


@pytest.fixture
def played(harness, command):
    def play(name):
        case = json.loads((CASES / f"{name}.json").read_text())
        with registry_of(case) as registry:
            world = Played(case, harness, command)
            world.play(registry)
        return world

    return play


def test_the_quick_cases_are_there():
    assert set(NAMES) > QUICK


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES]
)
def test_a_case_has_the_rows_that_a_careful_user_expects(played, name):
    world = played(name)
    tables = ("typed", "current", "quarantine", *world.types)
    found = [d for table in tables for d in world.differences(table)]
    found += world.unsaid()
    assert found == [], "\n".join([*found, *map(str, world.said)])


@pytest.mark.slow
def test_a_null_that_may_be_an_untold_value_is_told_once(played):
    world = played("36d-toast-numeric-array-null")
    with registry_of(world.case) as registry:
        world.play(registry)
    told = [text for _, _, text in world.said if "may be a value that did not come" in text]
    assert (len(told), len(world.said)) == (1, 2)


def test_texts_of_a_former_version_are_made_anew(played, command, harness):
    """Its decoder took a root that is a record or null for a single value: rows of nulls."""
    world = played("N2-avro-nullable-root")
    ledger = open_ledger(read_stream(world.file))
    wrapped = {"type": "record", "name": "reader", "namespace": "tideline"}
    whole = [["null", {"type": "record", "name": "tideline.value_", "fields": []}]]
    old = json.dumps(wrapped | {"fields": [{"name": "value", "type": whole[0]}]})

    def former(state):
        (part,) = state.decoding.parts
        writers = tuple(replace(w, text=old) for w in part.writers)
        parts = (replace(part, form=1, writers=writers),)
        return replace(state, decoding=replace(state.decoding, parts=parts))

    ledger.update(former)
    with registry_of(world.case) as registry:
        world.play(registry)
    assert [(row["id"], row["s"]) for row in world.rows("typed")] == [
        *((n, "g") for n in (100, 101, 102))
    ] * 2
    assert [part.form for part in ledger.read().decoding.parts] == [DECODER_FORM]
