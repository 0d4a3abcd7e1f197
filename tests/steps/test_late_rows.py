"""A row that comes where a loss was accepted: the typed tables were made without it (R12)."""

import pytest

from tideline.model.places import NOWHERE
from tideline.model.request import RequestedRange, RunRequest
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.run_batch import decode_batch, land_batch

LIVE = RunRequest()


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


def test_a_late_row_is_decoded_though_nobody_closes_its_plan_again(decoded_without):
    """One task was cleared, `ingest_ranges`, and none behind it."""
    ingest_ranges(decoded_without.open("lands"))
    decoded_without.run("next")
    assert typed_offsets(decoded_without) == [*range(10)]
    assert decoded_without.ledger().read().decoding.undone == NOWHERE
    assert decoded_without.is_clean()


def landing_again(memory):
    """A process that reads the first run's plan once more, right before its commit."""
    landing = memory.start("lands", lambda p: ingest_ranges(memory.context(p, "lands", LIVE)))
    while "@table:committing" not in landing.trace:
        landing.go_on(1)
    return landing


def test_a_late_row_whose_landing_dies_is_decoded(decoded_without):
    """Right after its commit."""
    landing = landing_again(decoded_without)
    while 0 not in decoded_without.offsets():
        landing.go_on(1)
    landing.kill()
    decoded_without.send(1)
    decoded_without.run("next")
    assert typed_offsets(decoded_without) == [*range(11)]
    assert decoded_without.is_clean()


def test_a_late_row_that_lands_while_others_decode_is_decoded(decoded_without):
    """They find no raw row there yet."""
    landing = landing_again(decoded_without)
    decode_batch(decoded_without.open("decodes"))
    landing.go_on()
    decoded_without.run("next")
    assert typed_offsets(decoded_without) == [*range(10)]
    assert decoded_without.is_clean()


def test_a_row_whose_loss_is_accepted_while_it_lands_is_decoded(memory):
    """A backfill has read it, and stands right before its commit."""
    memory.configure(
        decode={"value": {"format": "json"}}, on_reset={"unexplained_gap": "accept_loss"}
    )
    memory.send(10)
    memory.spark.loses = 1
    memory.commit("lands")
    asked = RunRequest(ranges=(RequestedRange("orders", 0, 0, 10),))
    backfill = memory.start("back", lambda p: land_batch(memory.context(p, "back", asked)))
    while "@table:committing" not in backfill.trace:
        backfill.go_on(1)
    memory.run("lands")
    assert typed_offsets(memory) == [*range(1, 10)]
    backfill.go_on()
    assert backfill.error is None
    memory.run("next")
    assert typed_offsets(memory) == [*range(10)]
    assert memory.is_clean()


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
