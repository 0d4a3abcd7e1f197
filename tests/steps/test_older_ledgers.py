"""The ledger is older than the table: a backup was restored, or its address edited (R13)."""

from contextlib import suppress
from dataclasses import replace

import pytest

from tests.simulation.run_events import tables_of
from tests.simulation.table import key_of
from tests.worlds.memory import one_range, spans
from tideline.decoding.decode_rules import to_decode
from tideline.errors import BadInput, ResetDetected, TidelineError
from tideline.landing.attempts import begin_attempt
from tideline.landing.proof import foreign_changes
from tideline.model.decoding import Decoding
from tideline.model.places import NOWHERE
from tideline.operations.erase_finding import AskedKeys
from tideline.operations.erasing import EraseRequest, erase
from tideline.operations.maintaining import maintain_stream
from tideline.operations.redrive import decode_again
from tideline.pipeline import decisions
from tideline.pipeline.run_batch import decode_batch, fold_batch

CURRENT = {"key": ["k"], "table": {"buckets": 2}, "every": 0, "deletes": {"tombstone": False}}
CAUSE = "the ledger is older than the table"


def taken_over(memory, run_id="after"):
    """The next run finds it, a person approves, the run goes on; its record."""
    assert memory.halts(run_id) == ["table_changed"]
    assert CAUSE in memory.incident.finding.cause
    memory.decide("approve")
    return memory.run(run_id)


def test_what_a_forgotten_rewind_has_removed_is_read_again(landed):
    """Rows that the table does not hold count for nothing, whatever the old ledger says."""
    landed.send(50)
    landed.run("two")
    landed.save_ledger()
    landed.rewind("lands")
    landed.restore_ledger()
    record = taken_over(landed)
    assert spans(record) == [(0, 100, 150)]
    assert landed.offsets() == [*range(150)]
    assert landed.is_clean()
    (closed,) = landed.closed
    assert "two.removed" not in closed.finding.actual
    assert "rewind-1.removed" in closed.finding.actual
    assert "[100, 150)" in closed.outcome


def test_what_a_forgotten_rewind_has_undone_in_typed_tables_is_decoded_again(landed):
    """Their rows went with the raw ones, and the old ledger calls them decoded still."""
    landed.send(50)
    landed.run("two")
    known = landed.ledger().read().head.coverage
    landed.ledger().update(lambda state: replace(state, decoding=Decoding(coverage=known)))
    landed.save_ledger()
    landed.rewind("lands")
    landed.restore_ledger()
    taken_over(landed)
    state = landed.ledger().read()
    (undecoded,) = to_decode(state.head, state.decoding, 1000)
    assert str(undecoded) == "orders-0 [100, 150)"


def test_a_part_of_a_run_that_was_removed_is_read_again(pair):
    """The records of runs that stay keep what still stands."""
    pair.send(50)
    pair.run("three")
    pair.save_ledger()
    pair.rewind("one")
    pair.restore_ledger()
    record = taken_over(pair)
    assert spans(record) == [(0, 50, 100), (1, 0, 50)]
    assert pair.is_clean()


def test_removed_records_that_have_expired_are_told_as_lost(landed):
    """By the halt that everybody knows, and never in silence."""
    landed.send(50)
    landed.run("two")
    landed.save_ledger()
    landed.rewind("lands")
    landed.restore_ledger()
    landed.expire(120)
    assert landed.halts("after") == ["table_changed"]
    landed.decide("approve")
    assert landed.halts_at("after") == ["retention_loss"]
    assert str(landed.incident.finding.intervals[0]) == "[100, 120)"
    landed.decide("accept_loss")
    landed.run("after")
    assert landed.offsets() == [*range(100), *range(120, 150)]
    assert landed.is_clean()


def test_rows_that_the_ledger_forgot_are_known_again(landed):
    """Nothing is read twice, and nothing is lost that stands, though Kafka has deleted it."""
    landed.save_ledger()
    landed.send(30)
    landed.run("newer")
    landed.restore_ledger()
    landed.expire(130)
    landed.send(5)
    record = taken_over(landed)
    assert spans(record) == [(0, 130, 135)]
    assert landed.offsets() == [*range(135)]
    assert landed.is_clean()
    assert landed.run("last").status == "nothing_to_do"


def test_a_forgotten_backfill_is_known_again(memory):
    """Its rows lie below where the stream began: no live run comes back for them."""
    memory.configure(start="latest")
    memory.send(50)
    memory.run("begins")
    memory.send(10)
    memory.run("lands")
    memory.save_ledger()
    memory.run("back", **one_range(0, 50))
    memory.restore_ledger()
    assert taken_over(memory).status == "nothing_to_do"
    assert memory.offsets() == [*range(60)]
    assert memory.is_clean()


def test_a_removed_backfill_does_not_take_the_live_lane_back(memory):
    """Where the stream began at `latest`, what lies below is nobody's business but a backfill's."""
    memory.configure(start="latest")
    memory.send(50)
    memory.run("begins")
    memory.send(10)
    memory.run("lands")
    memory.run("back", **one_range(0, 30))
    memory.save_ledger()
    memory.rewind("lands")
    memory.restore_ledger()
    assert taken_over(memory).status == "nothing_to_do"
    assert memory.offsets() == [*range(50, 60)]
    assert memory.is_clean()
    memory.run("again", **one_range(0, 30))
    assert memory.offsets() == [*range(30), *range(50, 60)]
    assert memory.is_clean()


def test_markers_among_forgotten_rows_are_explained_as_ever(landed):
    """One look at the log, and not a run for each marker."""
    landed.save_ledger()
    for _ in range(5):
        landed.transaction(3)
    landed.run("newer")
    landed.restore_ledger()
    read = landed.submits
    assert taken_over(landed).status == "nothing_to_do"
    assert landed.submits == read
    assert landed.head == {("orders", 0): 120}
    assert landed.is_clean()


def test_a_cut_of_what_was_forgotten_is_noticed(landed):
    """The table tells the epochs that forgotten plans were read with."""
    landed.save_ledger()
    landed.log().elect(100)
    landed.send(30)
    landed.run("newer")
    landed.restore_ledger()
    landed.log().elect(110)
    landed.send(60)
    assert landed.halts("after") == ["table_changed"]
    landed.decide("approve")
    assert landed.halts_at("after") == ["truncation"]
    landed.decide("accept_loss")
    landed.run("after")
    assert landed.is_clean()
    assert len(landed.rows(generation=0)) == 130
    assert [o for *_, o in landed.rows(generation=1)] == [*range(110, 170)]


def test_a_forgotten_generation_goes_on(landed):
    """Its number is not given to other records, and its records are not read twice."""
    landed.send(20)
    landed.save_ledger()
    landed.log().elect(90)
    landed.send(40)
    landed.halts("newer")
    landed.decide("accept_loss")
    landed.run("newer")
    rows = landed.rows()
    landed.restore_ledger()
    landed.send(5)
    record = taken_over(landed)
    assert spans(record) == [(0, 130, 135)]
    assert record.plan.ranges[0].generation == 1
    assert landed.rows(generation=0) == [r for r in rows if r[1] == 0]
    assert landed.is_clean()


def test_a_forgotten_incarnation_goes_on(landed):
    """The topic was created again, and that was decided, after the backup."""
    landed.save_ledger()
    landed.delete()
    landed.create()
    landed.send(20)
    landed.halts("newer")
    landed.decide("accept_loss")
    landed.run("newer")
    landed.restore_ledger()
    landed.send(5)
    assert spans(taken_over(landed)) == [(0, 20, 25)]
    assert len(landed.rows()) == 125
    assert landed.is_clean()


def test_a_backfill_and_a_look_tell_it_too(landed):
    """Wherever the table is looked at; the evidence stays until somebody has decided."""
    landed.save_ledger()
    landed.send(50)
    landed.run("newer")
    landed.restore_ledger()
    assert [f.kind for f in landed.audit()[1]] == ["table_changed"]
    assert landed.look().halts
    for run_id in ("back", "back again"):
        assert landed.halts(run_id, **one_range(0, 10)) == ["table_changed"]
    with pytest.raises(ResetDetected, match=CAUSE):
        landed.rewind("lands")
    taken_over(landed)
    assert landed.is_clean()


def test_a_frozen_plan_of_an_older_ledger_takes_the_table_over(landed):
    """The copy holds an open plan; the table has that plan's rows, and later ones."""
    landed.send(20)
    landed.freeze("two")
    landed.save_ledger()
    landed.run("two")
    landed.send(20)
    landed.run("three")
    landed.restore_ledger()
    read = landed.submits
    assert landed.halts_at("four") == ["table_changed"]
    landed.decide("approve")
    landed.run("four")
    landed.run("five")
    assert landed.submits == read
    assert landed.offsets() == [*range(140)]
    assert landed.is_clean()


def test_an_attempt_of_an_older_ledger_hides_no_evidence(landed):
    """No token is given out past the table's, however often a run tries."""
    landed.save_ledger()
    landed.send(50)
    landed.run("newer")
    newest = landed.table.versions[-1].token
    landed.restore_ledger()
    landed.send(5)
    run = landed.open("after")
    for _ in range(3):
        with run.ledger.lease("writer"), pytest.raises(ResetDetected, match=CAUSE):
            begin_attempt(run, run.ledger.read().control.ledger_id)
    assert landed.ledger().read().control.token < newest


FOLLOWS = {
    "fold": lambda run: fold_batch(run, "anew"),
    "decode": decode_batch,
    "decode again": decode_again,
    "maintain": lambda run: maintain_stream(run, {"decoded": tables_of(run)["decoded"]}),
}


@pytest.mark.parametrize("how", FOLLOWS)
def test_what_follows_the_raw_table_hides_no_evidence_either(landed, how):
    """Tables that follow have newer tokens: the raw one is looked at before one above is taken."""
    landed.configure(decode={"value": {"format": "json"}}, current=CURRENT)
    landed.decode = landed.stream.decode
    landed.run("decodes")
    landed.save_ledger()
    landed.send(50)
    landed.run("newer")
    landed.decoded.files["left by an attempt"] = []
    newest = landed.table.versions[-1].token
    landed.restore_ledger()
    run = landed.open("after")
    if how == "decode":
        run.ledger.update(
            lambda state: replace(state, decoding=replace(state.decoding, coverage=NOWHERE))
        )
    with pytest.raises(ResetDetected, match=CAUSE):
        FOLLOWS[how](run)
    assert landed.ledger().read().control.token < newest


def records(world):
    return {(row.identity.generation, row.offset): row.serial for row in world.table.rows()}


def goes_on(world):
    """Runs until nothing is asked any more; each finding is answered as is usual."""
    for number in range(8):
        for incident in world.incidents:
            choices = incident.finding.executable
            world.decide(
                "accept_loss" if "accept_loss" in choices else choices[0], incident.incident_id
            )
        with suppress(TidelineError):
            world.run(f"goes on {number}")


@pytest.mark.parametrize("gone", ["rewound", "deleted"])
def test_a_cut_of_rows_that_stand_no_more_is_noticed(memory, gone):
    """A forgotten commit's epochs tell it, whoever has taken its rows since."""
    memory.send(2)
    memory.run("one")
    memory.save_ledger()
    memory.send(6)
    memory.run("two")
    before = records(memory)
    if gone == "rewound":
        memory.rewind("one")
    memory.log().elect(7)
    memory.send(1)
    memory.restore_ledger()
    if gone == "deleted":
        memory.delete_rows(lambda offset: offset >= 2)
    goes_on(memory)
    after = records(memory)
    assert not {k for k in before if k in after and after[k] != before[k]}
    assert 9 in after.values()
    assert "truncation" in [i.finding.kind for i in memory.closed]
    assert memory.is_clean()


@pytest.mark.parametrize("gone", ["rewound", "deleted"])
def test_a_forgotten_generation_gives_its_number_to_no_other_log(memory, gone):
    """Also if none of its rows stands any more."""
    memory.send(8)
    memory.run("one")
    memory.save_ledger()
    memory.log().elect(5)
    memory.send(4)
    goes_on(memory)
    first = records(memory)
    if gone == "rewound":
        memory.rewind("one", accept_loss=True)
    memory.log().elect(6)
    memory.send(4)
    memory.restore_ledger()
    if gone == "deleted":
        kept = [row for row in memory.table.rows() if not row.identity.generation]
        memory.table.add_foreign(kept, "DELETE", removes_rows=True)
    goes_on(memory)
    after = records(memory)
    assert not {k for k in first if k in after and after[k] != first[k]}
    assert memory.is_clean()


@pytest.mark.parametrize("topic", ["set aside", "refused", "away once"])
@pytest.mark.parametrize("how", ["cut", "created again"])
def test_a_topic_that_is_not_seen_while_its_table_is_taken_over_lands_once(
    memory, monkeypatch, how, topic
):
    """What was forgotten of its log is known again when it comes back."""
    both = {"topics": ["orders", "other"]}
    memory.create("other")
    memory.configure(kafka=both)
    memory.send(8)
    memory.send(3, topic="other")
    memory.run("one")
    memory.save_ledger()
    if how == "cut":
        memory.log().elect(5)
    else:
        memory.delete()
        memory.create()
    memory.send(4)
    goes_on(memory)
    memory.restore_ledger()
    takes_over = decisions.recover_from_table

    def unseen(*given):
        if topic == "away once":
            memory.cluster.moods.insert(0, "absent")
        return takes_over(*given)

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(decisions, "recover_from_table", unseen)
        if topic == "set aside":
            memory.configure(kafka={"topics": ["other"]})
        if topic == "refused":
            memory.cluster.refused.add("orders")
        goes_on(memory)
    memory.cluster.refused.clear()
    memory.cluster.moods.clear()
    memory.configure(kafka=both)
    goes_on(memory)
    serials = [row.serial for row in memory.table.rows()]
    assert len(serials) == len({*serials})
    assert memory.is_clean()


def test_a_record_at_an_erased_place_behind_a_forgotten_cut_is_landed(memory):
    """Nobody has asked for its key: the erasure that the ledger forgot was of another record."""
    memory.send(2)
    memory.run("one")
    memory.save_ledger()
    memory.send(6)
    memory.run("two")
    run = memory.open("erase")
    asked = AskedKeys(raw_keys=(key_of(8),))
    erase(run, tables_of(run), EraseRequest(asked, "asked", "ann", most=1.0))
    memory.log().elect(7)
    memory.send(1)
    memory.restore_ledger()
    goes_on(memory)
    assert 9 in records(memory).values()
    assert memory.is_clean()


def test_a_crash_before_the_ledger_heard_of_a_commit_is_no_older_ledger(landed):
    """Every token in the table was given out by the ledger before."""
    landed.send(50)
    landed.commit("dies")
    landed.run("next")
    assert landed.closed == []
    assert landed.is_clean()


def test_a_commit_between_the_look_at_the_ledger_and_at_the_table_is_none_either(landed):
    """A backfill may take a token, and commit, while a live run looks."""
    landed.send(50)
    run, state = landed.open("live"), landed.ledger().read()
    landed.run("back", **one_range(0, 10))
    assert landed.table.versions[-1].token > state.control.token
    assert foreign_changes(run, state)[1] == ()


def test_a_ledger_that_was_lost_before_the_first_row_is_told(memory):
    """`latest` of another day would skip what was written since: the table says that it began."""
    memory.configure(start="latest")
    memory.send(10)
    assert memory.run("begins").status == "nothing_to_do"
    memory.send(50)
    memory.location = "/lake/edited"
    with pytest.raises(ResetDetected, match=r"is empty.*another ledger.*ledger_uri"):
        memory.run("after")
    memory.location = "/lake/ledger-1"
    memory.run("after")
    assert memory.offsets() == [*range(10, 60)]


def test_a_rewind_brings_no_row_back_that_is_gone(landed):
    """The head that a run left counts rows which the table has lost since."""
    landed.send(50)
    landed.run("two")
    landed.run("three")
    landed.save_ledger()
    landed.rewind("lands")
    landed.restore_ledger()
    landed.halts("after")
    landed.decide("approve")
    with pytest.raises(BadInput, match="in the table no more"):
        landed.rewind("two")
    landed.run("after")
    assert landed.offsets() == [*range(150)]
    assert landed.is_clean()
