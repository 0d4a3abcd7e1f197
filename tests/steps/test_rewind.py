"""Table and ledger go back together, and forward again (0012)."""

import re
from contextlib import nullcontext

import pytest

from tests.simulation.table import Version
from tests.worlds.dying import dying
from tests.worlds.memory import one_range, spans
from tideline import failpoints
from tideline.cli import doctor
from tideline.decoding.decode_steps import decode_rows, verify_decoded
from tideline.errors import BadInput, Halted, ReplayUnavailable, ResetDetected, StreamBusy
from tideline.folding.fold_steps import verify_current
from tideline.landing.observing import observe_topics
from tideline.model.offsets import TopicPartition
from tideline.operations import rewind as rewinding
from tideline.operations.questions import explain_record
from tideline.operations.stream_facts import StreamFacts


def records(memory):
    """The record at each coordinate: what a plan's id does not change."""
    return sorted((row.identity, row.offset, row.serial) for row in memory.table.rows())


def test_an_undone_run_cleared_is_planned_anew(pair):
    """With rows, a notice, and a plan of its own, which can be undone and gone back to (R3)."""
    before, undone = records(pair), pair.ledger().find_run("two").plan.plan_id
    pair.rewind("one")
    with pytest.raises(BadInput, match=r"'two': rewind-1 has undone it; allowed.*: one$"):
        pair.rewind("two")
    assert pair.rewind("one") is None
    (only,) = pair.ledger().rewinds()
    assert (only.rewind_id, only.by, only.reason) == ("rewind-1", "ann", "wrong filter")
    record = pair.run("two")
    assert (record.status, record.replaces) == ("done", undone)
    assert {n.kind for n in record.notices} == {"planned_anew"}
    assert (records(pair), pair.is_clean()) == (before, True)
    pair.send(50)
    pair.run("three")
    assert pair.rewind("two").undone_runs == ("three",)
    assert pair.rewind("one").undone_runs == ("two",)
    assert (len(pair.rows()), pair.is_clean()) == (50, True)


def test_a_run_nobody_knows_is_refused_with_what_is_allowed(pair):
    """Newest first; without a reason nothing is rewound either."""
    with pytest.raises(BadInput, match=r"'five': no such run; allowed.*: two, one$"):
        pair.rewind("five")
    with pytest.raises(BadInput, match="--reason"):
        pair.rewind("one", reason=" ")


def test_a_replay_keeps_the_run_where_it_first_closed(pair):
    """Clearing an old run rewrites its record, and moves nothing in the order of runs."""
    pair.run("one")
    assert pair.rewind("one").undone_runs == ("two",)
    assert pair.is_clean()


def test_backfills_of_later_are_undone_and_what_they_read_again_stays(memory):
    """By offsets, whichever lane landed them; forward again all is as it was."""
    memory.send(100)
    memory.configure(start={"offsets": {"orders": {0: 50}}})
    memory.run("one")
    memory.run("back", **one_range(20, 70))
    assert (len(memory.rows()), memory.is_clean()) == (80, True)
    done = memory.rewind("one")
    assert (done.rows, done.undone_runs) == (30, ("back",))
    assert memory.offsets() == list(range(50, 100))
    assert memory.is_clean()
    assert spans(memory.run("back", **one_range(20, 70))) == [(0, 20, 70)]
    assert (len(memory.rows()), memory.is_clean()) == (80, True)


def test_rows_of_an_open_plan_go_too(pair):
    """Committed and never advanced: undone with the runs that follow."""
    pair.send(10)
    pair.commit("three")
    assert pair.rewind("two").rows == 10
    assert len(pair.rows()) == 100
    assert spans(pair.run("three")) == [(0, 50, 60)]
    assert pair.run("four").status == "nothing_to_do"
    assert (len(pair.rows()), pair.is_clean()) == (110, True)


def test_what_kafka_cannot_give_back_is_refused_unless_the_loss_is_accepted(pair):
    """Naming partition, offsets and rows; until then table, ledger and runs are as they were."""
    pair.expire(20, partition=1)
    state, before = (pair.version, pair.ledger().read().head), pair.rows()
    with pytest.raises(ReplayUnavailable, match=r"-1 \[0, 20\): 20 rows") as refused:
        pair.rewind("one")
    (lost,) = refused.value.lost
    assert (lost.rows, lost.planned.start_offset, lost.planned.end_offset) == (20, 0, 20)
    assert (pair.version, pair.ledger().read().head) == state
    assert pair.ledger().rewinds() == []
    assert pair.is_clean()
    done = pair.rewind("one", accept_loss=True)
    assert (done.rows, done.lost_rows) == (50, 20)
    assert list(pair.head.values()) == [50, 20]
    assert pair.is_clean()
    pair.run("again")
    assert pair.is_clean()
    assert set(before) - set(pair.rows()) == {(pair.topic_id(), 0, 1, n) for n in range(20)}
    assert pair.rewind("again") is None


def test_a_compacted_topic_may_not_give_everything_back(memory):
    """Log start and end show nothing of it: refused, unless the loss is accepted."""
    memory.cluster.topics["orders"].config = {"cleanup.policy": "compact"}
    for run_id in ("one", "two"):
        memory.send(1)
        memory.run(run_id)
    memory.hole(0)
    with pytest.raises(ReplayUnavailable, match=r"\[1, 2\): 1 row \(the topic is compacted"):
        memory.rewind("one")
    assert memory.rewind("one", accept_loss=True).lost_rows == 1
    assert memory.head == {("orders", 0): 1}


@pytest.mark.parametrize("place", ["rewind:begun", "rewind:removed", "rewind:finished"])
def test_a_rewind_that_dies_is_finished_by_the_same_command(pair, monkeypatch, place):
    """Until then everybody else is kept out, with what to do; afterwards nothing tells."""

    class Died(Exception):
        pass

    def die(reached):
        if reached == place:
            raise Died

    monkeypatch.setattr(rewinding, "reach", die)
    with pytest.raises(Died):
        pair.rewind("one")
    monkeypatch.setattr(rewinding, "reach", failpoints.reach)
    unfinished = place != "rewind:finished"
    if unfinished:
        with pytest.raises(Halted, match=r"rewind-1 to run one was begun .* same tideline rewind"):
            pair.run("three")
        assert pair.ledger().rewinds()[0].finished_at is None
    assert (pair.rewind("one") is not None) == unfinished
    (only,) = pair.ledger().rewinds()
    assert (only.rows, only.undone_runs) == (50, ("two",))
    assert only.finished_at is not None
    assert (len(pair.rows()), pair.is_clean()) == (50, True)
    assert spans(pair.run("again")) == [(1, 0, 50)]
    assert pair.is_clean()


@pytest.mark.parametrize("place", [None, "rewind:begun", "rewind:removed", "rewind:finished"])
def test_a_cleared_run_of_airflow_s_rewinds_once(pair, monkeypatch, place):
    """It finishes its rewind; what has landed since that stays, as a clear moves nothing back."""

    class Died(Exception):
        pass

    def die(reached):
        if reached == place:
            raise Died

    asked = {"to_run": "one", "asked_in": "tideline_rewind manual__1"}
    monkeypatch.setattr(rewinding, "reach", die)
    with nullcontext() if place is None else pytest.raises(Died):
        pair.rewind(**asked)
    monkeypatch.setattr(rewinding, "reach", failpoints.reach)
    if place in ("rewind:begun", "rewind:removed"):
        assert pair.rewind(**asked).undone_runs == ("two",)
    pair.send(10)
    pair.run("three")
    rows, head = pair.rows(), pair.head
    assert pair.rewind(**asked).undone_runs == ("two",)
    assert (pair.rows(), pair.head) == (rows, head)
    assert len(pair.ledger().rewinds()) == 1
    again = {**asked, "asked_in": "tideline_rewind manual__2"}
    assert pair.rewind(**again).undone_runs == ("three",)
    assert pair.is_clean()


def test_another_rewind_finishes_the_one_before_it(pair, monkeypatch):
    """Then it does its own."""
    pair.send(50)
    pair.run("three")
    with monkeypatch.context() as patch:
        patch.setattr(rewinding, "_remove", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pair.rewind("two")
    assert pair.rewind("one").undone_runs == ("two",)
    assert [r.undone_runs for r in pair.ledger().rewinds()] == [("three",), ("two",)]
    assert (len(pair.rows()), pair.is_clean()) == (50, True)


def test_a_run_that_was_stopped_meanwhile_moves_nothing(pair):
    """Its lease ran out, the stream was rewound; what it writes to the ledger is refused (R5)."""
    stale = pair.ledger()
    with stale.lease("backfill"):
        pair.ledger().update(lambda s: s.without_lease("backfill", stale.holder))
        pair.rewind("one")
        with pytest.raises(StreamBusy, match="rewind took over"):
            stale.update(lambda s: s.with_next_token())


@pytest.mark.parametrize("name", ["live", "backfill", "writer"])
def test_nothing_is_rewound_while_somebody_is_at_work(pair, name):
    """Of any lane."""
    with pair.ledger().lease(name), pytest.raises(StreamBusy, match=name):
        pair.rewind("one")
    assert pair.ledger().rewinds() == []


def test_proposals_and_later_incidents_are_gone(pair):
    """What is still there is found again, as an incident of its own."""
    pair.delete()
    with pytest.raises(ResetDetected):
        pair.run("halted")
    assert list(pair.ledger().read().runs) == ["halted"]
    pair.rewind("one", accept_loss=True)
    state = pair.ledger().read()
    assert (state.runs, state.control.incidents) == ({}, ())
    assert "rewind-1" in pair.closed[-1].outcome
    with pytest.raises(ResetDetected, match="topic_missing"):
        pair.run("halted")
    assert pair.incident.incident_id == "incident-2"


def test_a_table_that_somebody_changed_is_settled_first(pair):
    """A rewind writes to it, so it asks the same question as a run does (R13)."""
    pair.delete_rows(lambda offset: offset == 3)
    with pytest.raises(ResetDetected, match="table_changed"):
        pair.rewind("one")
    assert pair.ledger().rewinds() == []


class Died(Exception):
    """A rewind that was cut off."""


@pytest.fixture(params=["rewind:begun", "rewind:removed"])
def cut_off(pair, monkeypatch, request):
    """A rewind to `one` that died before its rows went, or right after."""

    def die(reached):
        if reached == request.param:
            raise Died

    with monkeypatch.context() as patch:
        patch.setattr(rewinding, "reach", die)
        with pytest.raises(Died):
            pair.rewind("one")
    return pair


def go_on(memory):
    """The rewind is finished by the same command, and runs land again; nothing stands twice."""
    assert memory.rewind("one") is not None
    memory.run("later")
    assert memory.run("idle").status == "nothing_to_do"
    assert memory.is_clean()


def test_a_table_that_is_gone_meanwhile_is_decided_about(cut_off):
    """The rewind itself asks, and carries it out: nobody else may."""
    cut_off.table.table_id, cut_off.table.versions = None, []
    with pytest.raises(ResetDetected, match="the table is gone"):
        cut_off.rewind("one")
    with pytest.raises(Halted, match="same tideline rewind"):
        cut_off.run("three")
    cut_off.decide("approve")
    go_on(cut_off)
    assert "no longer holds" in cut_off.closed[-1].outcome
    assert cut_off.offsets(1) == list(range(50))
    assert sum(len(r) for _, r in cut_off.ledger().read().head.accepted_loss.pieces) > 0


def test_a_table_of_others_in_its_place_is_not_written_to(cut_off):
    """It has to go first; then the rewind asks about the one that is gone."""
    cut_off.table.table_id, cut_off.table.stream = "theirs", "another"
    cut_off.table.versions = [Version({}, "CREATE TABLE")]
    with pytest.raises(ResetDetected, match="belongs to another stream"):
        cut_off.rewind("one")
    assert cut_off.version == 0
    cut_off.table.table_id, cut_off.table.versions = None, []
    with pytest.raises(ResetDetected, match="the table is gone"):
        cut_off.rewind("one")
    cut_off.decide("approve")
    go_on(cut_off)


def test_an_older_copy_of_the_table_is_rewound_as_well(cut_off):
    """Its versions are below those that the rewind has seen; what it lacks is asked about later."""
    cut_off.table.versions = cut_off.table.versions[:2]
    assert cut_off.rewind("one") is not None
    assert cut_off.halts_at("three") == ["table_changed"]
    cut_off.decide("approve")
    cut_off.run("three")
    assert cut_off.run("idle").status == "nothing_to_do"
    assert cut_off.is_clean()


@pytest.mark.parametrize("place", ["rewind:begun", "rewind:removed"])
def test_everybody_who_looks_is_told_of_a_rewind_that_was_cut_off(pair, monkeypatch, place):
    """Rows may be gone that the ledger still has; no run lands, so no look says that one may."""
    with dying(monkeypatch, "tideline.operations.rewind", place):
        pair.rewind("one")
    state, told = pair.ledger().read(), "rewind-1 to run one was begun .* same tideline rewind"
    facts = StreamFacts(pair.stream, state, observe_topics(pair.open("status"), state.head))
    assert re.match(told, facts.status(pair.clock.now()).problem)
    places = [(1, 3), (0, 3)]
    undone, kept = (
        explain_record(pair.open("e"), TopicPartition("orders", p), o) for p, o in places
    )
    assert re.match(f"by run two; its row goes, or is gone: {told}", undone.text)
    assert (undone.outcome, kept.text) == ("landed", "by run one")
    monkeypatch.setattr(doctor, "open_ledger", lambda stream: pair.ledger())
    with pytest.raises(doctor.Warned, match=told):
        doctor._ledger(pair.stream)
    with pytest.raises(Halted, match="rewind-1"):
        pair.look()
    pair.rewind("one")
    assert pair.look().proposal.ranges


def test_a_verification_cleared_after_a_rewind_tells_of_no_rows(memory):
    """Airflow publishes an event of what it returns, for whoever builds on the typed table."""
    memory.configure(decode={"value": {"format": "json"}})
    memory.decode = memory.stream.decode
    for run_id in ("one", "two"):
        memory.send(10)
        memory.run(run_id)
    assert verify_decoded(memory.open("two")).decoded == 10
    memory.rewind("one")
    assert verify_decoded(memory.open("one")).decoded == 10
    assert verify_decoded(memory.open("two")) is None
    assert decode_rows(memory.open("two")) is None
    memory.run("two")
    assert verify_decoded(memory.open("two")).decoded == 10
    assert memory.is_clean()


def test_a_fold_s_verification_cleared_after_a_rewind_tells_of_no_fold(memory):
    """What it has folded is undone; its event would be the newest of the current table."""
    current = {"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}}
    memory.configure(decode={"value": {"format": "json"}}, current=current)
    memory.decode, memory.folds = memory.stream.decode, memory.stream.current
    for run_id in ("one", "two"):
        memory.send(10)
        memory.run(run_id)
    assert verify_current(memory.open("two")).plan.run_id == "two"
    memory.rewind("one")
    assert verify_current(memory.open("one")).plan.run_id == "one"
    assert verify_current(memory.open("two")) is None
    memory.run("two")
    assert verify_current(memory.open("two")).plan.run_id == "two"
    assert memory.is_clean()
