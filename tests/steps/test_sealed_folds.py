"""What a fold's own commit tells a ledger that was put back to before it (ADR 87)."""

from dataclasses import replace

import pytest

from tests.simulation.run_events import sweep_below, tables_of
from tests.worlds.dying import dying
from tideline.folding.current_checking import check_current
from tideline.folding.fold_steps import verify_current
from tideline.operations.erase_finding import AskedKeys
from tideline.operations.erasing import EraseRequest, erase
from tideline.pipeline.run_batch import fold_batch

DECODE = {"value": {"format": "json"}}
CURRENT = {"key": ["k"], "table": {"buckets": 2}, "every": 0, "deletes": {"tombstone": False}}
FOLDED = {"decode": DECODE, "current": CURRENT}


@pytest.fixture
def folded(memory):
    """Ten changes of three keys; the last ones are at 7, 8 and 9, and one of them is a delete."""
    memory.configure(**FOLDED)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.send(10)
    memory.run("lands")
    return memory


def live(world):
    """Offsets of the rows that are there."""
    rows = world.current.rows()
    return sorted(row.change.offset for row in rows if not row.change.is_deleted)


def head(world):
    """The fold's head."""
    return world.ledger().read().folding


def sweep(world, run_id="sweep"):
    """What is below offset 9 goes."""
    sweep_below(world, world.open(run_id), 90)


def is_as_folded(world):
    return world.is_clean() and not check_current(world.open("check")).flaws


def test_a_sweep_that_the_ledger_has_forgotten_is_known_again(folded):
    before = live(folded)
    folded.save_ledger()
    sweep(folded)
    swept, floors = live(folded), head(folded).floors
    assert len(swept) == len(before) - 1
    folded.restore_ledger()
    folded.send(1)
    folded.run("later")
    assert head(folded).floors == floors
    assert {*live(folded)} - {10} <= {*swept}
    assert is_as_folded(folded)


def test_a_sweep_before_an_erasure_has_cut_the_log_is_known_again(folded):
    """Both are forgotten: the commit at which the log was cut tells of the sweep."""
    folded.save_ledger()
    sweep(folded)
    swept, floors = live(folded), head(folded).floors
    run = folded.open("erase")
    keys = AskedKeys(({"essay": "key-1"},), whole_keys=True)
    asked = EraseRequest(keys, "asked", "ann", most=1.0, is_now=True)
    assert erase(run, tables_of(run), asked).erasure.status == "done"
    assert folded.current.log_start == len(folded.current.versions) - 1
    folded.restore_ledger()
    folded.send(1)
    assert folded.halts() == ["table_changed"]
    folded.decide("approve")
    folded.run("later")
    assert head(folded).floors == floors
    assert {*live(folded)} - {10} <= {*swept}
    assert is_as_folded(folded)


def test_a_sweep_is_known_again_beside_rows_that_were_forgotten_as_well(folded):
    """The raw table tells what has landed, and the current table what was swept."""
    folded.save_ledger()
    folded.send(2)
    folded.run("forgotten")
    sweep(folded)
    swept = live(folded)
    folded.restore_ledger()
    folded.send(1)
    assert folded.halts() == ["table_changed"]
    folded.decide("approve")
    folded.run("later")
    assert {*live(folded)} - {12} <= {*swept}
    assert head(folded).floors
    assert is_as_folded(folded)


def test_a_sweep_stands_while_its_snapshot_is_decoded_again(folded):
    """Typed tables of new addresses are decoded in portions: a fold may come in between."""
    sweep(folded)
    swept, floors = live(folded), head(folded).floors
    folded.readdress()
    folded.stream = folded.stream.model_copy(
        update={"limits": folded.stream.limits.model_copy(update={"max_records_per_run": 1})}
    )
    folded.send(1)
    folded.run("first portion")
    assert len(live(folded)) == 0  # the snapshot is not decoded yet
    assert head(folded).floors == floors
    for number in range(6):
        folded.run(f"portion-{number}")
    assert head(folded).floors == floors
    assert {*live(folded)} - {10} <= {*swept}
    assert head(folded).unproven_since is None


def test_a_fold_that_was_open_in_an_older_ledger_does_not_hide_what_came_after_it(
    folded, monkeypatch
):
    """Its commit is found, and the newest token is not its own."""
    folded.send(1)
    with dying(monkeypatch, "tideline.folding.fold_execution", "fold:committed"):
        folded.run("cut off")
    folded.save_ledger()
    fold_batch(folded.open("fold"), "due")
    sweep(folded)
    floors, swept = head(folded).floors, live(folded)
    folded.restore_ledger()
    fold_batch(folded.open("later"), "due")
    assert (head(folded).floors, live(folded)) == (floors, swept)
    assert is_as_folded(folded)


def test_a_run_that_is_repeated_with_an_older_ledger_learns_what_came_after_it(folded, monkeypatch):
    """Nothing else may be due for days: its own commit is found, and is not what stands there."""
    folded.send(1)
    with dying(monkeypatch, "tideline.folding.fold_execution", "fold:committed"):
        folded.run("cut off")
    folded.save_ledger()
    fold_batch(folded.open("fold"), "due")
    sweep(folded)
    floors, swept = head(folded).floors, live(folded)
    folded.restore_ledger()
    folded.run("cut off")
    assert (head(folded).floors, live(folded)) == (floors, swept)
    assert is_as_folded(folded)


def test_a_verification_after_the_ledger_was_put_back_hides_nothing_either(folded, monkeypatch):
    folded.send(1)
    with dying(monkeypatch, "tideline.folding.fold_steps", "fold:closing"):
        folded.run("cut off")
    folded.save_ledger()
    verify_current(folded.open("cut off"))
    sweep(folded)
    floors = head(folded).floors
    folded.restore_ledger()
    verify_current(folded.open("cut off"))
    folded.send(1)
    folded.run("later")
    assert head(folded).floors == floors
    assert is_as_folded(folded)


def test_lost_deletes_that_the_ledger_has_forgotten_are_known_again(folded):
    """What was read late is in the ledger alone."""
    folded.save_ledger()
    late = folded.ledger().read().head.coverage
    folded.ledger().update(lambda s: s.with_head(replace(s.head, read_late=late)))
    folded.send(1)
    folded.run("reads late")
    since = head(folded).unproven_since
    assert since is not None
    folded.restore_ledger()
    folded.send(1)
    assert folded.halts() == ["table_changed"]
    folded.decide("approve")
    folded.run("later")
    assert head(folded).unproven_since == since
    sweep(folded)
    folded.send(1)
    folded.run("last")
    assert head(folded).unproven_since is None


def test_a_former_table_tells_a_new_one(folded):
    """The ledger was put back, and the stream file names another address by then."""
    folded.save_ledger()
    sweep(folded)
    floors = head(folded).floors
    folded.restore_ledger()
    folded.readdress()
    folded.send(1)
    folded.run("later")
    assert head(folded).floors == floors
    assert is_as_folded(folded)


def test_a_fold_that_tells_nothing_leaves_the_table_unproven_until_a_sweep(folded):
    """As a version before has written it: nobody knows whether rows were swept."""
    folded.save_ledger()
    sweep(folded)
    folded.current.versions[-1] = replace(folded.current.versions[-1], fold="")
    folded.restore_ledger()
    folded.send(1)
    folded.run("later")
    assert head(folded).unproven_since is not None
    sweep(folded, "again")
    folded.send(1)
    folded.run("last")
    assert head(folded).unproven_since is None


def test_floors_that_are_given_up_are_lost_deletes(folded):
    """By an order that is declared no floor holds, nor after a rewind over the snapshot."""
    sweep(folded)
    assert head(folded).unproven_since is None
    folded.readdress()
    folds = folded.folds.model_copy(update={"sequence_by": ["essay"]})
    folded.stream = folded.stream.model_copy(update={"current": folds})
    folded.folds = folds
    folded.send(1)
    folded.run("by sequence")
    assert head(folded).floors == ()
    assert head(folded).unproven_since is not None


@pytest.mark.parametrize("is_forgotten", [False, True])
def test_a_sweep_says_nothing_of_the_rows_of_another_event_type(memory, is_forgotten):
    """The snapshot was one of the first type's rows; those of the other one were not in it."""
    types = [{"type": name, "subject": name} for name in "ab"]
    decode = {"value": {"format": "avro", "types": types}, "tombstones": "drop"}
    sections = {"registry": {}, "decode": decode}
    memory.configure(**sections, current=CURRENT | {"type": "a"})
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    memory.send(30)
    memory.run("lands")
    memory.save_ledger()
    sweep(memory)
    if is_forgotten:
        memory.restore_ledger()
    memory.readdress()
    memory.folds = memory.folds.model_copy(update={"type": "b"})
    memory.stream = memory.stream.model_copy(update={"current": memory.folds})
    memory.send(1)
    memory.run("of b")
    assert len(live(memory)) == len(memory.current.rows()) == 3
    assert head(memory).floors == ()
    assert head(memory).unproven_since is not None
    assert is_as_folded(memory)
