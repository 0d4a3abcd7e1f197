"""What a crashed run leaves open, and how the next one recovers it (R1, R3, R5)."""

import sys
from dataclasses import replace

import pytest

from tests.simulation.run_events import move
from tests.simulation.table_events import drop_table
from tests.worlds.memory import one_range, spans
from tideline.errors import AttemptFenced, ResetDetected, StreamBusy
from tideline.landing.attempts import Attempt
from tideline.pipeline.freezing import freeze_run
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.proposing import stable_proposal
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)


@pytest.fixture
def waiting(memory):
    """100 records, and no run yet."""
    memory.send(100)
    return memory


def test_a_frozen_plan_is_executed_as_it_is(waiting):
    """The end of the log is never asked for twice (R1)."""
    waiting.freeze("a")
    waiting.send(50)
    assert spans(waiting.run("a")) == [(0, 0, 100)]


def test_a_run_that_died_before_it_froze_is_planned_anew(waiting):
    """A proposal binds nobody."""
    plan_offset_ranges(waiting.open("a"))
    waiting.send(50)
    plan_offset_ranges(waiting.open("b"))
    assert spans(waiting.run("a")) == [(0, 0, 150)]


def test_the_same_run_finishes_what_it_committed_without_reading(waiting):
    """The table proves the rows."""
    waiting.commit("a")
    before = (waiting.submits, waiting.version)
    assert waiting.run("a").status == "done"
    assert (waiting.submits, waiting.version) == before
    assert waiting.offsets() == list(range(100))


def test_the_next_run_finishes_what_another_committed_and_goes_on(waiting):
    """The open plan is verified and advanced, then the new range is planned behind it."""
    waiting.commit("a")
    waiting.send(50)
    assert spans(waiting.run("b")) == [(0, 100, 150)]
    assert waiting.ledger().find_run("a").status == "done"
    found, _ = waiting.audit()
    assert (found.clean, found.rows) == (True, 150)


def test_the_next_run_finishes_a_plan_that_was_never_read(waiting):
    """It executes that plan, not one of its own; the rest is the next run's."""
    frozen = waiting.freeze("a")
    waiting.send(50)
    assert waiting.run("b").plan.plan_id == frozen.plan.plan_id
    assert waiting.ledger().find_run("a").status == "done"
    assert spans(waiting.run("c")) == [(0, 100, 150)]
    assert waiting.run("a").status == "done"
    assert waiting.offsets() == list(range(150))


def test_a_plan_that_can_no_longer_be_read_is_superseded(waiting):
    """Rows below the log start are gone; the next run says so, the old one ends green."""
    waiting.freeze("a")
    waiting.expire(40)
    with pytest.raises(ResetDetected, match=r"\[0, 40\)"):
        waiting.run("b")
    assert waiting.run("a").status == "superseded"


def test_rows_that_are_in_the_table_are_never_reported_lost(waiting):
    """Committed, not advanced, expired since: no loss for `plan`, `audit` and the next run."""
    waiting.commit("a")
    waiting.expire(100)
    seen = waiting.look()
    assert (seen.proposal.ranges, seen.findings) == ((), ())
    found, findings = waiting.audit()
    assert (found.clean, findings, len(found.unverified)) == (True, (), 1)
    assert waiting.head == {("orders", 0): 0}
    waiting.send(10)
    assert spans(waiting.run("b")) == [(0, 100, 110)]


def test_a_commit_whose_rows_were_taken_away_proves_nothing(waiting):
    """The mark is still in the history; the rows are counted, and the head stays."""
    waiting.commit("a")
    waiting.delete_rows(lambda offset: offset < 10)
    waiting.send(5)
    assert waiting.halts_at("b") == ["table_changed"]  # also where nothing was verified yet
    waiting.decide("approve")
    waiting.run("b")
    assert waiting.offsets() == list(range(100))
    assert waiting.run("c").status == "done"
    assert waiting.offsets() == list(range(105))


def test_a_delete_under_the_first_plan_is_told_whoever_lands_first(waiting):
    """A backfill that looks at the table later must not take it for known (R13)."""
    live = waiting.commit("live")
    verify_ranges(live)
    waiting.delete_rows(lambda offset: offset >= 50)
    with pytest.raises(ResetDetected, match="table_changed"):
        waiting.run("back", **one_range(0, 10))
    with pytest.raises(ResetDetected, match="table_changed"):
        advance_offsets(live)
    waiting.decide("approve")
    waiting.run("live")
    waiting.run("back", **one_range(0, 10))
    assert (waiting.offsets(), waiting.is_clean()) == (list(range(100)), True)


def test_a_delete_in_a_table_made_anew_is_told_whoever_lands_first(waiting):
    """The one before was approved as gone: a backfill looks at the next one later (R13)."""
    waiting.run("before")
    waiting.table.table_id, waiting.table.versions = None, []
    assert waiting.halts() == ["table_changed"]
    waiting.decide("approve")
    waiting.run("decided")
    waiting.send(20)
    live = waiting.commit("live")
    verify_ranges(live)
    waiting.delete_rows(lambda offset: offset >= 110)
    with pytest.raises(ResetDetected, match="table_changed"):
        waiting.run("back", **one_range(0, 10))
    with pytest.raises(ResetDetected, match="table_changed"):
        advance_offsets(live)


def test_a_table_that_goes_under_a_backfill_s_plan_is_approved_by_a_live_run(waiting):
    """Nothing was landed: if only that plan knew the table, a live run would find nothing (R13)."""
    waiting.configure(start="latest")
    waiting.run("live")
    waiting.freeze("back", **one_range(0, 10))
    drop_table(waiting)
    assert waiting.halts("back", **one_range(0, 10)) == ["table_changed"]
    waiting.decide("approve")
    waiting.run("next")
    assert [i.outcome.partition(";")[0] for i in waiting.closed] == [
        "accepted the table at version None"
    ]
    assert waiting.run("back", **one_range(0, 10)).status == "done"
    assert (waiting.offsets(), waiting.is_clean()) == (list(range(10)), True)


def test_a_superseded_plan_claims_nothing_that_it_had_verified(waiting):
    """Verified, then taken away by others and lost by the log: no head moved over it (R6)."""
    run = waiting.commit("a")
    verify_ranges(run)
    assert waiting.ledger().find_run("a").verified
    waiting.delete_rows(lambda offset: True)
    waiting.expire(100)
    with pytest.raises(ResetDetected):
        waiting.run("b")
    record = waiting.ledger().find_run("a")
    assert (record.status, record.verified, record.table_commit) == ("superseded", (), None)


def test_two_runs_cannot_freeze_over_each_other(waiting):
    """Airflow lets a manual run in between another run's tasks."""
    waiting.freeze("a")
    assert waiting.freeze("b").finishes == "a"


def test_two_that_looked_at_once_do_not_both_freeze(waiting):
    """The second one's look is from before the first one's plan."""
    a, b = waiting.open("a"), waiting.open("b")
    plan_offset_ranges(a)
    known, record = a.snapshot()
    state, proposal, _ = stable_proposal(a, known, record)
    b.ledger.update(lambda s: s.with_run(replace(record, run_id="b")))
    freeze_run(b, state, proposal, lambda head: head)
    with pytest.raises(StreamBusy):
        freeze_run(a, state, proposal, lambda head: head)


def test_a_proposal_that_another_run_replaced_is_made_again(waiting):
    """Whoever detects second recovers what the first one froze."""
    a = waiting.open("a")
    plan_offset_ranges(a)
    waiting.freeze("b")
    assert detect_earliest_reset(a).finishes == "b"


def older_attempt(run, ledger_id):
    """An attempt whose token is not larger than the table's."""
    state = run.ledger.read()
    return Attempt(run, replace(state, control=replace(state.control, token=0)))


@pytest.mark.parametrize("run_id", ["again", "next"])
def test_an_older_attempt_publishes_nothing(landed, monkeypatch, run_id):
    """Nor a replay: its token is not larger than the table's, and that is noticed first (R5)."""
    landed.run("again")
    if run_id == "next":
        landed.send(10)
        landed.freeze("next")
    version = landed.version
    monkeypatch.setattr(sys.modules[ingest_ranges.__module__], "begin_attempt", older_attempt)
    with pytest.raises(AttemptFenced):
        ingest_ranges(landed.open("lands" if run_id == "again" else "next"))
    assert landed.version == version
    assert landed.head == {("orders", 0): 100}


def test_a_move_of_the_ledger_keeps_positions_plans_and_the_fence(landed):
    """The old home lets nobody in."""
    landed.send(20)
    landed.commit("cut off")
    old, submits = landed.location, landed.submits
    move(landed, 1)
    landed.processes[-1].go_on()
    assert landed.location != old
    assert spans(landed.run("cut off")) == [(0, 100, 120)]
    assert landed.submits == submits
    landed.send(30)
    assert spans(landed.run("next")) == [(0, 120, 150)]


@pytest.mark.parametrize("expired", [False, True], ids=["there", "expired"])
def test_rows_stand_though_the_log_of_the_table_has_forgotten_their_commit(landed, expired):
    """A run died a month ago: log cleanup takes the commit, and nobody's rows with it."""
    landed.send(50)
    landed.commit("dies")
    landed.send(10)
    for _ in range(3):
        landed.table.add_foreign(landed.table.rows(), "OPTIMIZE", removes_rows=False)
    landed.table.log_start = len(landed.table.versions) - 1
    if expired:
        landed.expire(150)
    assert landed.halts_at("two") == ["table_changed"]
    assert "no longer in the table's log" in landed.incident.finding.cause
    landed.decide("approve")
    landed.run("two")
    landed.run("three")
    assert landed.offsets() == [*range(160)]
    assert not landed.ledger().read().head.accepted_loss
    assert landed.is_clean()


def test_rows_whose_commit_is_forgotten_stand_also_where_a_loss_is_decided(landed):
    """The plan halted at a gap; its record knows the commit, or its rows tell."""
    landed.send(50)
    landed.hole(120)
    with pytest.raises(ResetDetected):
        landed.run("dies")
    for _ in range(3):
        landed.table.add_foreign(landed.table.rows(), "OPTIMIZE", removes_rows=False)
    landed.table.log_start = len(landed.table.versions) - 1
    landed.expire(150)
    landed.decide("accept_loss")
    assert landed.halts_at("two") == ["table_changed"]
    (of_table,) = [i for i in landed.incidents if i.finding.kind == "table_changed"]
    landed.decide("approve", of_table.incident_id)
    landed.run("two")
    landed.run("three")
    lost = [str(r) for _, r in landed.ledger().read().head.accepted_loss.pieces]
    assert lost == ["[120, 121)"]
    assert len(landed.offsets()) == 149
    assert landed.is_clean()


def test_an_erasure_of_rows_that_nobody_had_verified_has_to_be_made_again(landed):
    """An approval takes the table as shown; the open plan lands its rows once more, as it says."""
    landed.send(10)
    landed.commit("cut off")
    landed.delete_rows(lambda offset: offset == 105)
    with pytest.raises(ResetDetected, match="rows that somebody erased have to be erased again"):
        landed.run("next")
    landed.decide("approve")
    landed.run("next")
    assert landed.offsets() == list(range(110))
    assert landed.is_clean()
