"""People mark a task by hand as done, or clear one alone: the others do not know what it left."""

import pytest

from tests.worlds.memory import hours, one_range, spans
from tideline.errors import Halted, ResetDetected, WindowUnavailable
from tideline.landing.context import hold_lane
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.resolve_reset import ask, resolve_reset
from tideline.pipeline.steps import advance_offsets, plan_offset_ranges, verify_ranges


def task(memory, step, run_id, **form):
    """One task of a run, and no other."""
    run = memory.open(run_id, **form)
    with hold_lane(run):
        return step(run)


def behind_detection(memory, run_id, **form):
    """The tasks behind `detect_earliest_reset`, which somebody has marked as done."""
    for step in (ask, resolve_reset, ingest_ranges, verify_ranges):
        task(memory, step, run_id, **form)
    return task(memory, advance_offsets, run_id, **form)


def test_a_backfill_whose_detection_was_marked_lands_its_window(hourly):
    """It has read nothing yet, and nothing speaks against it."""
    task(hourly, plan_offset_ranges, "day", **hours(hourly, 1, 3))
    record = behind_detection(hourly, "day", **hours(hourly, 1, 3))
    assert (record.lane, record.status) == ("backfill", "done")
    assert spans(record) == [(p, 10, 30) for p in (0, 1)]
    assert hourly.is_clean()


def test_what_a_window_has_lost_is_told_though_its_detection_was_marked(hourly):
    """The rest does not land as if it were all."""
    hourly.run("first look")
    for partition in (0, 1):
        hourly.expire(15, partition=partition)
    with pytest.raises(WindowUnavailable):
        hourly.run("day", **hours(hourly, 1, 3))
    with pytest.raises(WindowUnavailable, match=r"orders-0 \[0, 15\)"):
        behind_detection(hourly, "day", **hours(hourly, 1, 3))
    assert hourly.rows() == []
    hourly.configure(start="latest", on_reset={"retention_loss": "accept_loss"})
    record = behind_detection(hourly, "day", **hours(hourly, 1, 3))
    assert {notice.kind for notice in record.notices} == {"expired"}


def test_a_window_whose_detection_was_marked_reads_no_other_offsets(hourly):
    """Where runs proceed beside an incident, the live lane's next offsets are not its window."""
    hourly.configure(start="latest", on_incident="proceed")
    hourly.run("first look")
    hourly.send(5, 1)
    hourly.log(0).elect(55)
    hourly.send(10)
    for run_id, form in (("live", {}), ("day", hours(hourly, 1, 3))):
        with pytest.raises(ResetDetected):
            hourly.run(run_id, **form)
    with pytest.raises(ResetDetected):
        behind_detection(hourly, "day", **hours(hourly, 1, 3))
    assert hourly.rows() == []


@pytest.mark.parametrize("policy", ["fail", "approve", "accept_loss"])
def test_a_backfill_carries_no_decision_about_a_log_out(landed, policy):
    """Decisions move the head: they are the live lane's."""
    landed.configure(on_reset={"truncation": policy})
    landed.log().elect(40)
    landed.send(80)
    before = landed.head
    with pytest.raises(ResetDetected):
        landed.run("back", **one_range(0, 20))
    assert task(landed, ask, "back", **one_range(0, 20)) == ()
    if policy != "accept_loss":
        landed.decide("accept_loss")
    with pytest.raises(ResetDetected):
        behind_detection(landed, "back", **one_range(0, 20))
    assert landed.head == before
    with pytest.raises(Halted, match="the run has no plan"):
        task(landed, ingest_ranges, "back", **one_range(0, 20))
    landed.run("live")
    assert spans(behind_detection(landed, "back", **one_range(0, 20))) == [(0, 0, 20)]
    assert landed.is_clean()
