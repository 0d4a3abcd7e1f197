"""One identity is one record: what was known of a log never counts for the log that follows it."""

import sys
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.worlds.memory import one_range, spans
from tests.worlds.spark_doubles import HookedSpark
from tideline.decoding.decode_rules import to_remove
from tideline.errors import ReplayUnavailable, ResetDetected, StreamBusy
from tideline.landing.closing import close_plan
from tideline.model.decoding import Decoding
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.pipeline import proposing
from tideline.pipeline.decisions import accept_gaps
from tideline.pipeline.resolve_reset import resolve_reset
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)

FIVE = {"limits": {"max_records_per_run": 5}}


@pytest.fixture
def ahead(memory):
    """Ten records, of which five are landed: the others were seen and not read."""
    memory.configure(**FIVE)
    memory.send(10)
    memory.run("live")
    return memory


def cut(world, at=5, refilled=8):
    """An unclean election, and records after it."""
    world.log().elect(at)
    world.send(refilled)


def forgetful(head):
    """The head as if nothing had been seen beyond its positions."""
    return replace(head, positions=tuple(replace(p, seen_end=None) for p in head.positions))


class Died(BaseException):
    """A process that ends where a test says."""


def decided_only(world, run_id, monkeypatch):
    """A run that dies right after it has carried a decision out."""

    def reach(here):
        if here in ("resolve:carried_out", "resolve:accepted"):
            raise Died

    for step in (resolve_reset, accept_gaps):
        monkeypatch.setattr(sys.modules[step.__module__], "reach", reach)
    with pytest.raises(Died):
        world.run(run_id)
    monkeypatch.undo()


def test_a_backfill_that_wakes_after_a_cut_covers_nothing_of_the_new_log(ahead, monkeypatch):
    """It has verified the records that were cut; their place is another log's by now."""
    sleeper = ahead.commit("back", **one_range(5, 10))
    verify_ranges(sleeper)

    def sleeps(here):
        if here != "advance:moving":
            return
        monkeypatch.undo()
        cut(ahead)
        ahead.configure()
        assert ahead.halts() == ["truncation"]
        ahead.decide("accept_loss")
        decided_only(ahead, "halted", monkeypatch)

    monkeypatch.setattr(sys.modules[close_plan.__module__], "reach", sleeps)
    advance_offsets(sleeper)
    ahead.run("later")
    assert [o for _, g, _, o in ahead.rows() if g == 1] == list(range(5, 13))
    assert ahead.is_clean()


def test_an_accepted_loss_is_of_the_log_in_which_it_was_accepted(memory, monkeypatch):
    """An offset that could not be read is cut with others: the record there now is another one."""
    memory.send(10)
    memory.spoil(7)
    with pytest.raises(ResetDetected, match="unreadable_record"):
        memory.run("halted")
    memory.decide("accept_loss")
    decided_only(memory, "halted", monkeypatch)
    cut(memory, refilled=10)
    with pytest.raises(ResetDetected, match="truncation"):
        memory.run("next")
    memory.decide("accept_loss")
    memory.run("decided")
    memory.run("rest")
    assert memory.offsets() == list(range(15))
    assert memory.is_clean()


def test_what_a_cleared_run_reads_of_another_log_fills_no_gap(memory):
    """It had a marker there and no row, and the log was cut and refilled before Spark read."""
    memory.transaction(0)
    memory.run("lands")
    memory.sparks = [lambda spark: HookedSpark(spark, before=lambda: cut(memory, at=0))]
    with pytest.raises(ReplayUnavailable, match="the log was truncated at 0"):
        memory.run("lands")
    assert memory.halts() == ["truncation"]
    memory.decide("accept_loss")
    memory.run("halted")
    assert [(g, o) for _, g, _, o in memory.rows()] == [(1, o) for o in range(8)]
    assert memory.is_clean()


@pytest.mark.parametrize("is_older", [False, True], ids=["", "by an earlier version"])
def test_what_a_frozen_plan_has_seen_is_known(ahead, is_older):
    """Nothing of it was read, and it can be read no longer: that is no reason to be silent (R3)."""
    ahead.freeze("frozen")
    if is_older:  # the plan alone tells how far the log reached
        ahead.ledger().update(lambda state: state.with_head(forgetful(state.head)))
    cut(ahead)
    assert ahead.halts() == ["truncation"]
    assert [str(r) for r in ahead.incident.finding.intervals] == ["[5, 10)"]
    assert ahead.run("frozen").status == "superseded"
    ahead.decide("accept_loss")
    ahead.configure()
    ahead.run("decided")
    assert [o for _, g, _, o in ahead.rows() if g == 1] == list(range(5, 13))
    assert ahead.is_clean()


@pytest.mark.parametrize("form", [{}, one_range(5, 8)], ids=["live", "backfill"])
def test_what_a_proposal_has_seen_is_known(ahead, form):
    """A run that died before it froze anything has seen the end all the same."""
    ahead.send(3)
    run = ahead.open("looked", **form)
    plan_offset_ranges(run)
    cut(ahead, at=11)
    assert ahead.halts() == ["truncation"]
    assert [str(r) for r in ahead.incident.finding.intervals] == ["[11, 13)"]


def test_what_green_runs_have_seen_of_a_halted_partition_is_known(pair):
    """It does not move, and its log goes on: what is cut there is told beside what halts it."""
    pair.configure(on_incident="proceed")
    pair.send(5)
    pair.expire(52)
    assert pair.halts() == ["retention_loss"]
    pair.send(20)
    pair.run("green")
    cut(pair, at=60, refilled=30)
    assert pair.halts("later") == ["truncation"]
    assert [i.finding.kind for i in pair.incidents] == ["retention_loss", "truncation"]
    assert [str(r) for r in pair.incidents[-1].finding.intervals] == ["[60, 75)"]


def test_a_backfill_s_look_does_not_disturb_the_live_lane(ahead):
    """It raises what is known of the log, and neither side has to begin again."""
    live = ahead.open("next")
    plan_offset_ranges(live)
    ahead.send(4)
    plan_offset_ranges(ahead.open("b", **one_range(8, 12)))
    assert detect_earliest_reset(live).status == "planned"
    assert ahead.run("b", **one_range(8, 12)).status == "done"
    assert spans(ahead.run("next")) == [(0, 5, 10)]


def test_no_false_alarm_by_what_was_seen(ahead):
    """A clean election keeps what was replicated; epochs alone prove nothing."""
    for _ in range(3):
        ahead.send(2)
        ahead.log().elect(ahead.log().end)
        plan_offset_ranges(ahead.open("looks"))
    ahead.configure()
    assert ahead.run("all").status == "done"
    assert ahead.offsets() == list(range(16))


def test_a_generation_that_a_rewind_took_back_is_never_given_again(ahead):
    """Its number may stand in typed tables, and in whatever was copied from them."""
    cut(ahead, at=3)
    ahead.configure()
    assert ahead.halts() == ["truncation"]
    ahead.decide("accept_loss")
    ahead.run("halted")
    ahead.rewind("live")
    assert {g for _, g, _, _ in ahead.rows()} == {0}
    assert ahead.halts() == ["truncation"]
    ahead.decide("accept_loss")
    ahead.run("halted")
    assert {g for _, g, _, _ in ahead.rows()} == {0, 2}
    assert ahead.is_clean()


def test_a_cut_of_what_a_rewound_decision_had_read_is_told(memory):
    """Two cuts: a rewind went back before the first, and the second came before the next run."""
    memory.send(10)
    memory.run("live")
    cut(memory, at=8, refilled=4)
    assert memory.halts() == ["truncation"]
    memory.decide("accept_loss")
    memory.run("halted")
    memory.rewind("live")
    cut(memory, at=9, refilled=1)
    memory.halts("again")
    (incident,) = memory.ledger().read().open_incidents
    assert incident.finding.intervals == (OffsetRange(8, 12),)
    memory.decide("accept_loss")
    memory.run("again")
    assert memory.is_clean()


def test_a_generation_of_which_the_table_has_rows_is_not_given(ahead):
    """The ledger may have been restored from before it was given."""
    before = ahead.ledger().read().head
    cut(ahead, at=3)
    ahead.configure()
    ahead.halts()
    ahead.decide("accept_loss")
    ahead.run("halted")
    known = ahead.ledger().read().head
    older = replace(
        before, commits=known.commits, table_version=known.table_version, coverage=before.coverage
    )
    ahead.ledger().update(lambda state: state.with_head(older))
    ahead.halts("again")
    ahead.decide("accept_loss")
    ahead.run("again")
    assert {g for _, g, _, _ in ahead.rows()} == {0, 1, 2}


def test_what_a_rewind_undoes_in_typed_tables_is_on_record(landed):
    """Whatever lands there before it is done: the same place may hold fewer records then."""
    landed.send(20)
    landed.run("undone")
    identity = PartitionIdentity(landed.topic_id(), 0, 0)
    known = landed.ledger().read().head.coverage
    landed.ledger().update(lambda state: replace(state, decoding=Decoding(coverage=known)))
    landed.rewind("lands")
    landed.run("again")
    state = landed.ledger().read()
    assert [str(r) for r in state.head.coverage[identity]] == ["[0, 120)"]
    assert [str(r) for r in state.decoding.coverage[identity]] == ["[0, 100)"]
    assert [str(r) for r in to_remove(state.head, state.decoding)] == ["orders-0 [100, 120)"]


def test_a_window_s_end_that_was_cut_is_looked_up_in_the_new_log(memory):
    """Its offset was that of the old one, and would never be reached again."""
    memory.clock.milliseconds = 12 * 3600 * 1000
    start = memory.clock.now() - timedelta(hours=2)
    memory.configure(start="latest")
    memory.send_at(*(start + n * timedelta(minutes=10) for n in range(10)))
    window = {"from": start.isoformat(), "to": (start + timedelta(minutes=95)).isoformat()}
    plan_offset_ranges(memory.open("looked", **window))
    memory.log().elect(6)
    memory.send_at(start + timedelta(minutes=61))
    with pytest.raises(ResetDetected, match="truncation"):
        memory.run("looked", **window)
    memory.decide("accept_loss")
    memory.run("live")
    record = memory.run("looked", **window)
    assert (record.status, spans(record)) == ("done", [(0, 0, 6), (0, 6, 7)])
    assert memory.offsets() == list(range(7))
    assert memory.is_clean()


@pytest.mark.parametrize("refilled", [0, 8])
def test_a_cut_between_what_two_runs_saw_is_told(landed, monkeypatch, refilled):
    """The second knows of the log what the first has not seen yet, and cannot tell."""
    real = proposing.draft

    def meanwhile(run, *known):
        monkeypatch.setattr(proposing, "draft", real)
        landed.send(10)
        plan_offset_ranges(landed.open("back", **one_range(0, 10)))
        cut(landed, 105, refilled)
        return real(run, *known)

    monkeypatch.setattr(proposing, "draft", meanwhile)
    with pytest.raises(StreamBusy, match="before a truncation; run again"):
        plan_offset_ranges(landed.open("live"))
    assert landed.halts_at("live") == ["truncation"]
    (gone,) = landed.incident.finding.intervals
    assert (gone.start_offset, gone.end_offset) == (105, 110)
