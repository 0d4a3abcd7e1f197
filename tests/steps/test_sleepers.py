"""A process that stood still for longer than its lease, and what others have done meanwhile."""

import pytest

from tests.simulation.run_events import pass_time
from tests.simulation.table_events import drop_typed, leave, move_away, move_back, occupy
from tests.worlds.memory import one_range, stands_at, wakes
from tideline.errors import ServiceAway, StreamBusy, TidelineError
from tideline.folding.current_checking import check_current
from tideline.model.request import RunRequest, read_form
from tideline.pipeline.run_batch import run_batch


def standing(memory, run_id, place, **form):
    """A process of a run that stands still at a boundary; its leases are good."""
    request = read_form(form, memory.clock.now()) if form else RunRequest()
    return stands_at(memory, run_id, place, lambda p: run_batch(memory.context(p, run_id, request)))


def asleep(memory, run_id, place, **form):
    """The same, and its leases have run out."""
    sleeper = standing(memory, run_id, place, **form)
    pass_time(memory, 100, stopped=-1)
    return sleeper


def test_a_run_id_has_one_plan_though_its_retry_closed_it(memory):
    """The first attempt recovers another run's plan, its retry closes, and then it wakes."""
    memory.send(100)
    memory.commit("dies")
    memory.send(10)
    sleeper = asleep(memory, "a", "advance:moving")
    closed = memory.run("a")
    memory.send(10)
    assert isinstance(wakes(sleeper), StreamBusy)
    assert memory.ledger().find_run("a") == closed
    assert memory.run("next").status == "done"
    assert memory.offsets() == list(range(120))
    assert memory.is_clean()


@pytest.mark.parametrize("place", ["plan:proposing", "plan:proposed", "detect:freezing"])
def test_a_backfill_has_one_plan_though_its_retry_closed_it(landed, place):
    """Its lease is its own; no head tells that somebody else was there."""
    landed.send(20)
    sleeper = asleep(landed, "back", place, **one_range(100, 110))
    closed = landed.run("back", **one_range(100, 110))
    assert isinstance(wakes(sleeper), StreamBusy)
    assert landed.ledger().find_run("back") == closed
    assert not landed.ledger().read().runs
    landed.run("next")
    assert landed.is_clean()


def test_a_run_whose_proposal_another_one_replaced_is_busy(landed):
    """It stood between detection and the look at what detection left."""
    landed.send(10)
    landed.expire(105)
    landed.configure(on_reset={"retention_loss": "accept_loss"})
    sleeper = asleep(landed, "a", "halt:opened")
    assert landed.run("b").status == "done"
    assert isinstance(wakes(sleeper), StreamBusy)
    assert landed.is_clean()


def test_rows_that_a_decision_is_about_to_remove_count_for_nobody(memory):
    """A backfill counts its rows wholly between the removal's token and its commit."""
    memory.send(10)
    memory.commit("live")
    backfill = standing(memory, "back", "ingest:released", **one_range(2, 5))
    memory.log().elect(7)
    memory.send(8)
    memory.halts()
    memory.decide("accept_loss")
    deciding = standing(memory, "halted", "table:committing")
    assert isinstance(wakes(backfill), StreamBusy)
    assert wakes(deciding) is None
    assert memory.is_clean()


@pytest.mark.parametrize("place", ["verify:keeping", "advance:moving"])
def test_rows_that_a_decision_has_removed_count_for_nobody(memory, place):
    """A backfill wakes when the incident is closed; its own log was cut behind its range only."""
    memory.send(10)
    memory.commit("live")
    backfill = standing(memory, "back", place, **one_range(2, 5))
    memory.log().elect(7)
    memory.send(8)
    assert memory.halts() == ["truncation"]
    memory.decide("accept_loss")
    deciding = standing(memory, "halted", "resolve:carried_out")
    assert (memory.incidents, memory.offsets()) == ((), [])
    assert isinstance(wakes(backfill), StreamBusy)
    assert wakes(deciding) is None
    assert memory.offsets() == list(range(7))
    assert memory.is_clean()


@pytest.mark.parametrize("place", ["verify:keeping", "verify:verified", "advance:moving"])
@pytest.mark.parametrize("until", ["resolve:removed", "resolve:carried_out"])
def test_rows_that_a_decision_removes_count_for_nobody(memory, place, until):
    """A backfill has counted its own among the doubted ones of a live plan, and holds its lease."""
    memory.send(10)
    memory.commit("live")
    backfill = standing(memory, "back", place, **one_range(2, 5))
    memory.delete()
    memory.create()
    memory.send(20)
    memory.halts()
    memory.decide("restart")
    deciding = standing(memory, "halted", until)
    assert isinstance(wakes(backfill), TidelineError)
    assert wakes(deciding) is None
    assert memory.is_clean()


def comes_back(landed, topic_id, sleeper):
    """The table is there again: who has slept lands nothing, and the new topic lands once."""
    move_back(landed)
    assert isinstance(wakes(sleeper), StreamBusy)
    assert landed.halts_at("next") == ["topic_recreated"]
    landed.decide("restart")
    landed.run("next")
    assert [o for t, *_, o in landed.rows() if t == topic_id] == list(range(100))
    assert len(landed.rows()) == 210
    assert landed.is_clean()


@pytest.mark.parametrize("place", ["ingest:leased", "ingest:written", "table:committing"])
def test_no_plan_is_closed_while_its_table_is_away(landed, place):
    """No fence can be put into it, and the attempt that sleeps may find it again (R5)."""
    topic_id = landed.topic_id()
    landed.send(10)
    sleeper = asleep(landed, "a", place)
    move_away(landed)
    landed.create()
    landed.send(110)
    assert landed.halts() == ["table_changed"]
    comes_back(landed, topic_id, sleeper)


def test_no_plan_is_closed_while_another_table_is_in_its_table_s_place(landed):
    """A fence in there would keep nobody out, and be written to somebody else's table (R13)."""
    topic_id = landed.topic_id()
    landed.send(10)
    sleeper = asleep(landed, "a", "table:committing")
    move_away(landed)
    occupy(landed)
    landed.create()
    landed.send(110)
    assert landed.halts() == ["table_changed"]
    assert [v.operation for v in landed.table.versions] == ["CREATE TABLE"]
    leave(landed)
    comes_back(landed, topic_id, sleeper)


@pytest.mark.parametrize("place", ["ingest:fenced", "ingest:leased", "ingest:written"])
def test_a_closed_plan_lands_in_no_table_that_was_away_until_then(memory, place):
    """Its end was approved, so the plan was closed without a fence, and then it was back (R5)."""
    memory.run("looks")  # which makes it
    memory.send(10)
    sleeper = asleep(memory, "a", place)
    move_away(memory)
    memory.create()
    memory.send(30)
    assert memory.halts() == ["table_changed"]
    memory.decide("approve")
    assert memory.halts_at("next") == ["topic_recreated"]
    assert memory.ledger().find_run("a").status == "superseded"
    move_back(memory)
    assert isinstance(wakes(sleeper), StreamBusy)
    assert memory.offsets() == []
    memory.decide("restart")
    memory.run("next")
    assert memory.offsets() == list(range(30))
    assert memory.is_clean()


@pytest.mark.parametrize("until", ["fold:prepared", "fold:freezing", "fold:frozen"])
def test_a_fold_that_wakes_up_beside_its_retry_hides_no_change_of_that(memory, until):
    """More is decoded by then. Both commits would be of one run; the older one comes first."""
    memory.configure(
        decode={"value": {"format": "json"}},
        current={"key": ["k"], "table": {"buckets": 2}, "deletes": {"tombstone": False}},
    )
    memory.decode, folds = memory.stream.decode, memory.stream.current
    memory.folds = folds
    memory.send(10)
    memory.run("lands")
    memory.send(1)
    sleeper = asleep(memory, "a", "fold:frozen")
    memory.send(2)
    memory.stream = memory.stream.model_copy(update={"current": None})
    memory.run("decodes")
    memory.stream = memory.stream.model_copy(update={"current": folds})
    retry = standing(memory, "a", until)
    assert isinstance(wakes(sleeper), StreamBusy)
    assert isinstance(wakes(retry), ServiceAway)
    memory.run("a")
    memory.run("next")
    assert memory.is_clean()
    assert not check_current(memory.open("check")).flaws


@pytest.mark.parametrize("place", ["decode:prepared", "decode:frozen"])
def test_a_decoding_whose_tables_others_delete_meanwhile_ends_with_run_again(memory, place):
    """It has made them sure, and stands still before it asks Spark or commits."""
    memory.configure(decode={"value": {"format": "json"}})
    memory.decode = memory.stream.decode
    memory.send(10)
    decoding = standing(memory, "decodes", place)
    drop_typed(memory, 0)
    error = wakes(decoding)
    assert isinstance(error, ServiceAway)
    assert "is gone" in str(error)
    memory.send(1)
    memory.run("next")
    assert sorted(row.offset for row in memory.decoded.rows()) == list(range(11))
    assert memory.is_clean()


@pytest.mark.parametrize("place", ["table.create<", "table.create>"])
def test_tables_that_are_deleted_before_a_decoding_makes_them_sure_are_not_its_own(memory, place):
    """It had looked at them: what is decoded beside its own plan would have been in no table."""
    memory.configure(decode={"value": {"format": "json"}})
    memory.decode = memory.stream.decode
    for run_id in ("one", "two"):
        memory.send(10)
        memory.run(run_id)
    clear = memory.start("one", lambda p: run_batch(memory.context(p, "one", RunRequest())))
    while place not in clear.trace:
        clear.go_on(1)
    drop_typed(memory, 0)
    error = wakes(clear)
    assert isinstance(error, ServiceAway)
    assert "others have deleted typed tables since they were looked at" in str(error)
    memory.send(1)
    memory.run("next")
    assert sorted(row.offset for row in memory.decoded.rows()) == list(range(21))
    assert memory.is_clean()
