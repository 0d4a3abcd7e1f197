"""The ledger is older than the typed tables: what it does not know of them is undone (R13)."""

import pytest

from tests.worlds.dying import dying
from tideline.model.places import NOWHERE
from tideline.operations.redrive import redrive


def typed(memory):
    """Offsets in the typed table, and in quarantine."""
    return [sorted(r.offset for r in t.rows()) for t in (memory.decoded, memory.quarantine)]


@pytest.fixture
def forgotten(memory, monkeypatch):
    """A redrive has put record 4 into the typed table, and the ledger of before is put back."""
    memory.configure(decode={"value": {"format": "json"}, "quarantine": {"max_share": 1}})
    memory.send(10)
    memory.spark.garbled = {5}  # serials count from 1
    memory.run("lands")
    memory.spark.garbled = set()
    memory.save_ledger()

    with dying(monkeypatch, "tideline.decoding.decode_execution", "decode:committed"):
        redrive(memory.open("redrive"))
    assert typed(memory) == [[*range(10)], [4]]
    memory.restore_ledger()
    return memory


def test_what_a_ledger_forgot_of_its_typed_tables_is_decoded_again(forgotten):
    """By the next run that has something to decode; nobody is asked, since no record can go."""
    forgotten.send(1)
    forgotten.run("next")
    assert typed(forgotten) == [[*range(11)], []]
    assert forgotten.ledger().read().decoding.undone == NOWHERE


def test_typed_rows_that_are_known_stay_as_they_are(forgotten):
    """Each plan that closes tells how far the tables are known."""
    forgotten.send(1)
    forgotten.run("next")
    forgotten.send(1)
    (planned,) = forgotten.run("last").plan.ranges
    last = forgotten.ledger().find_decoding("last")
    assert [(r.start_offset, r.end_offset) for r in last.plan.ranges] == [(11, 12)]
    assert last.plan.removes == ()
    assert (planned.start_offset, planned.end_offset) == (11, 12)
