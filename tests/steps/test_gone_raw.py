"""Decoding beside a raw table that is gone, or that others have changed and nobody has decided."""

import pytest

from tests.simulation.table_events import drop_table, drop_typed, move_away, move_back
from tests.worlds.dying import dying
from tideline.errors import ResetDetected, ServiceAway
from tideline.operations.redrive import decode_again, redrive
from tideline.pipeline.run_batch import fold_batch

CURRENT = {"key": ["k"], "table": {"buckets": 2}, "every": 0, "deletes": {"tombstone": False}}


@pytest.fixture
def decoded(memory):
    memory.configure(decode={"value": {"format": "json"}}, current=CURRENT)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.send(10)
    memory.run("lands")
    return memory


def test_a_decoding_ends_where_the_end_of_its_raw_table_was_approved(decoded, monkeypatch):
    """No record comes any more, and fold, erasure and redrive would wait for one."""
    decoded.send(5)
    with dying(monkeypatch, "tideline.decoding.verifying", "decode:closing"):
        decoded.run("cut off")
    drop_table(decoded)
    with pytest.raises(ServiceAway, match="tideline resolve FILE --incident ID --choice approve"):
        fold_batch(decoded.open("fold"), "due")
    assert decoded.halts() == ["table_changed"]
    decoded.decide("approve")
    decoded.run("approved")
    assert decoded.ledger().read().decoding.open is None
    fold_batch(decoded.open("fold again"), "due")
    assert decoded.ledger().read().folding.open is None
    decoded.send(3)
    assert decoded.run("later").status == "done"
    assert {*range(10)} <= {row.offset for row in decoded.decoded.rows()}


def test_a_raw_table_that_is_back_after_its_end_was_approved_is_decoded(landed):
    """A landing would take it; but none comes where Kafka has nothing new."""
    move_away(landed)
    landed.halts()
    landed.decide("approve")
    landed.run("approved")
    move_back(landed)
    landed.configure(decode={"value": {"format": "json"}})
    landed.decode = landed.stream.decode
    landed.run("decodes")
    assert len(landed.decoded.rows()) == 100
    landed.send(1)
    assert landed.run("later").status == "done"
    assert len(landed.decoded.rows()) == 101
    assert landed.is_clean()


def test_typed_tables_that_are_deleted_beside_a_plan_that_is_not_verified_are_made_anew(
    decoded, monkeypatch
):
    """Its commits are noted, and have gone with the tables: verifying them would never end."""
    decoded.send(5)
    with dying(monkeypatch, "tideline.decoding.verifying", "decode:closing"):
        decoded.run("cut off")
    drop_typed(decoded, 0)
    decoded.run("next")
    assert len(decoded.decoded.rows()) == 15
    assert decoded.is_clean()


@pytest.mark.parametrize("again", [decode_again, redrive])
def test_nothing_is_decoded_again_from_a_table_that_others_have_changed(decoded, again):
    """Its rows may be put back: what was decoded of them would have gone meanwhile."""
    rows = decoded.table.rows()
    decoded.delete_rows(lambda offset: offset > 4)
    with pytest.raises(ResetDetected, match="table_changed"):
        again(decoded.open("again"))
    assert len(decoded.decoded.rows()) == 10
    decoded.table.add_foreign(rows, "RESTORE", removes_rows=True)
    assert decoded.halts() == ["table_changed"]
    decoded.decide("approve")
    decoded.run("approved")
    again(decoded.open("again, approved"))
    assert len(decoded.decoded.rows()) == 10
    assert decoded.is_clean()


@pytest.mark.parametrize("asked", ["due", "anew", None])
def test_a_fold_is_not_called_nothing_while_the_typed_table_is_away(decoded, asked):
    """Changes wait, and what they are nobody can read: the current table lags, and that is told."""
    folds = decoded.stream.current
    decoded.stream = decoded.stream.model_copy(update={"current": None})
    decoded.send(5)
    decoded.run("decodes")
    decoded.stream = decoded.stream.model_copy(update={"current": folds})
    table_id, decoded.decoded.table_id = decoded.decoded.table_id, None
    with pytest.raises(ServiceAway, match=r"/lake/s_decoded is gone: nothing was folded"):
        fold_batch(decoded.open("fold"), asked)
    decoded.decoded.table_id = table_id
    fold_batch(run := decoded.open("fold again"), asked)
    assert run.folded.changes


def test_typed_tables_that_were_deleted_for_good_are_made_anew_as_a_fold_says(decoded):
    """Kafka has nothing new."""
    drop_typed(decoded, 0)
    with pytest.raises(ServiceAway, match="tideline decode FILE --again and tideline run FILE"):
        fold_batch(decoded.open("fold"), "anew")
    decode_again(decoded.open("again"))
    decoded.run("next")
    assert len(decoded.decoded.rows()) == 10
    fold_batch(decoded.open("fold again"), "anew")
    assert decoded.is_clean()
