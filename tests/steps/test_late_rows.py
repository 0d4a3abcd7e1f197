"""A row that comes where a loss was accepted: the typed tables were made without it (R12)."""

import pytest

from tideline.model.places import NOWHERE
from tideline.pipeline.run_batch import land_batch


@pytest.fixture
def decoded_without(memory):
    """Ten records are landed and decoded; the loss of the first is accepted by policy."""
    decode = {"value": {"format": "json"}}
    memory.configure(decode=decode, on_reset={"unexplained_gap": "accept_loss"})
    memory.send(10)
    memory.spark.loses = 1
    memory.run("lands")
    assert typed_offsets(memory) == [*range(1, 10)]
    return memory


def typed_offsets(memory):
    """Offsets of the typed rows, and each holds the record of its raw row."""
    raw = {(r.identity, r.offset): r.serial for r in memory.table.rows()}
    rows = memory.decoded.rows()
    assert [raw[r.identity, r.offset] for r in rows] == [r.serial for r in rows]
    return sorted(r.offset for r in rows)


def test_a_late_row_is_decoded_by_the_next_run(decoded_without):
    """The tasks that land were cleared, and those that decode were not."""
    land_batch(decoded_without.open("lands"))
    decoded_without.run("next")
    assert typed_offsets(decoded_without) == [*range(10)]
    assert decoded_without.ledger().read().decoding.undone == NOWHERE


def test_a_late_row_that_an_older_ledger_forgot_is_decoded(decoded_without):
    """The table tells of the commit that has brought it."""
    decoded_without.save_ledger()
    land_batch(decoded_without.open("lands"))
    decoded_without.restore_ledger()
    assert decoded_without.halts("after") == ["table_changed"]
    decoded_without.decide("approve")
    decoded_without.run("after")
    assert decoded_without.ledger().read().decoding.undone == NOWHERE
    (decoded,) = decoded_without.ledger().read().decoding.coverage.values()
    assert [str(r) for r in decoded] == ["[0, 10)"]
    assert typed_offsets(decoded_without) == [*range(10)]
