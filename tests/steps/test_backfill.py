"""Backfills: what they land, and what they leave alone."""

import json

import pytest

from tests.worlds.memory import HOUR, hours, one_range, spans
from tideline.errors import BadInput, RequestConflict, WindowUnavailable


def test_windows_tile_in_any_order(hourly):
    """Six hours, none twice and none left out, and the head where it was."""
    for n in (3, 0, 5, 1, 2, 4):
        record = hourly.run(f"hour-{n}", **hours(hourly, n, n + 1))
        assert (record.lane, record.status) == ("backfill", "done")
        assert spans(record) == [(p, 10 * n, 10 * n + 10) for p in (0, 1)]
    assert list(hourly.head.values()) == [60, 60]
    assert [hourly.offsets(p) for p in (0, 1)] == [list(range(60))] * 2
    assert hourly.is_clean()


def test_a_window_means_the_same_offsets_for_good(hourly):
    """R11: what arrives late, by its own time, belongs to whoever reads its offset."""
    hourly.run("first", **hours(hourly, 4, 6))
    hourly.send_at(hourly.noon + 4.5 * HOUR)
    assert spans(hourly.run("first", **hours(hourly, 4, 6))) == [(0, 40, 60), (1, 40, 60)]
    assert spans(hourly.run("next", **hours(hourly, 6, 7))) == [(0, 60, 61)]
    assert hourly.run("live").status == "nothing_to_do"
    assert hourly.is_clean()


def test_part_of_a_window_has_expired(hourly):
    """What is gone is named, what is left is offered, and a policy decides."""
    hourly.run("first look")
    for partition in (0, 1):
        hourly.expire(15, partition=partition)
    with pytest.raises(WindowUnavailable, match=r"orders-0 \[0, 15\)") as refused:
        hourly.run("day", **hours(hourly, 1, 3))
    offered = refused.value.ranges
    assert [(r["start_offset"], r["end_offset"]) for r in offered] == [(15, 30), (15, 30)]
    assert json.dumps(offered) in refused.value.message
    assert hourly.incidents == ()
    hourly.configure(start="latest", on_reset={"retention_loss": "accept_loss"})
    record = hourly.run("day", **hours(hourly, 1, 3))
    assert spans(record) == [(0, 15, 30), (1, 15, 30)]
    assert {n.kind for n in record.notices} == {"expired"}
    hourly.configure(start="latest")
    assert spans(hourly.run("offer", ranges=offered)) == [(0, 15, 30), (1, 15, 30)]
    assert hourly.is_clean()


def test_a_window_that_has_expired_but_was_landed_is_nothing_to_do(hourly):
    """The rows are in the table."""
    hourly.configure(start="earliest")
    hourly.run("live")
    for partition in (0, 1):
        hourly.expire(40, partition=partition)
    assert hourly.run("gone", **hours(hourly, 1, 3)).status == "nothing_to_do"
    assert len(hourly.rows()) == 120


def test_a_record_from_the_future_makes_times_unusable(hourly):
    """It would hide whatever comes behind it; explicit ranges still work."""
    hourly.send_at(hourly.noon + 48 * HOUR, hourly.noon + HOUR)
    with pytest.raises(WindowUnavailable, match="in the future") as refused:
        hourly.run("hour", **hours(hourly, 6, 7))
    assert refused.value.offset == 60
    assert spans(hourly.run("named", **one_range(0, 62))) == [(0, 0, 62)]


def test_a_run_id_stands_for_one_window(hourly):
    """Another window needs another run."""
    hourly.run("hour", **hours(hourly, 0, 1))
    with pytest.raises(RequestConflict, match="lane backfill"):
        hourly.run("hour", **hours(hourly, 1, 2))
    with pytest.raises(RequestConflict):
        hourly.run("hour")


def test_the_live_lane_moves_over_what_a_backfill_has_landed(memory):
    """R12: read once, by whichever lane came first."""
    memory.send(100)
    memory.run("some", **one_range(20, 50))
    assert memory.head == {("orders", 0): 0}
    before = memory.submits
    assert spans(memory.run("live-1")) == [(0, 0, 20)]
    assert spans(memory.run("live-2")) == [(0, 50, 100)]
    assert memory.submits == before + 2
    memory.send(30)
    memory.run("ahead", **one_range(100, 130))
    assert memory.run("live-3").status == "nothing_to_do"
    assert memory.head == {("orders", 0): 130}
    assert memory.offsets() == list(range(130))
    assert memory.is_clean()


def test_rows_beyond_the_head_are_not_lost_when_kafka_forgets_them(landed):
    """They are in the table: no finding, nothing to decide."""
    landed.send(50)
    landed.run("ahead", **one_range(100, 140))
    landed.expire(140)
    assert spans(landed.run("live")) == [(0, 140, 150)]
    assert landed.is_clean()


def test_a_backfill_of_landed_rows_replaces_them_in_one_copy(landed):
    """R2, R4: read again, counted, and put in place."""
    version = landed.version
    again = landed.run("again", **one_range(30, 70))
    assert [v.rows for v in again.verified] == [40]
    assert landed.version == version + 1
    assert landed.offsets() == list(range(100))
    assert (landed.head, landed.is_clean()) == ({("orders", 0): 100}, True)


def test_ranges_that_the_log_does_not_have_are_refused(landed):
    """And nothing is stored."""
    with pytest.raises(BadInput, match="an end of at most 100"):
        landed.run("past", **one_range(50, 101))
    with pytest.raises(BadInput, match="does not follow"):
        landed.run("none", **one_range(0, 1, partition=3))
    assert landed.ledger().find_run("past") is None


def test_a_backfill_halts_where_the_log_is_another_one(landed):
    """Decisions are the live lane's; the backfill can be repeated after them."""
    landed.create()
    landed.send(10)
    assert landed.halts("some", **one_range(0, 10)) == ["topic_recreated"]
    landed.decide("restart")
    assert spans(landed.run("live")) == [(0, 0, 10)]
    assert spans(landed.run("some", **one_range(0, 10))) == [(0, 0, 10)]
    assert landed.is_clean()


def test_two_open_backfills_do_not_hold_the_live_lane_up(memory):
    """Each run has its own lease; only writing to the table is one at a time."""
    memory.send(90)
    one, two = (memory.open(r, **one_range(n, n + 30)) for n, r in ((0, "a"), (30, "b")))
    with one.ledger.lease(one.lane_lease), two.ledger.lease(two.lane_lease):
        assert spans(memory.run("live")) == [(0, 0, 90)]
    assert memory.is_clean()


def test_a_backfill_that_died_after_its_commit_is_finished_by_its_own_run(memory):
    """Another run leaves it alone; its rows are not foreign meanwhile."""
    memory.send(50)
    memory.commit("died", **one_range(10, 40))
    found, _ = memory.audit()
    assert (found.clean, [f.offsets for f in found.unverified]) == (True, [30])
    assert spans(memory.run("live")) == [(0, 0, 50)]
    submits = memory.submits
    assert memory.run("died", **one_range(10, 40)).status == "done"
    assert memory.submits == submits
    assert memory.offsets() == list(range(50))
    assert memory.is_clean()
