"""Rows 9-12: the log lost its end, its middle, or all of it; the topic id stays the same."""

import pytest

from devstack.broker import Broker
from devstack.harness import StreamHarness
from tests.faults.cluster import ThreeBrokers
from tests.faults.disk import (
    QUICK_RESTART,
    cut_tail,
    kill,
    middle_segment,
    remove_segment,
    started,
    wipe,
)
from tests.faults.fault_case import LANDED, FaultCase
from tests.worlds.streams import decide, table_rows
from tideline.landing import closing
from tideline.model.request import RunRequest
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges
from tideline.wiring import open_run


@pytest.fixture
def broker(tmp_path):
    """A broker of the test's own, whose disk may be harmed."""
    with started(Broker(tmp_path / "kafka", settings=QUICK_RESTART)) as found:
        yield found


@pytest.fixture
def fault_case(broker, tmp_path, spark, report):
    return FaultCase(StreamHarness(broker, tmp_path, "cut"), spark, report)


def loses_tail(fault_case, broker, at, refill):
    """Killed, and started again without the end of its log; then so many records more."""
    kill(broker)
    cut_tail(broker, fault_case.topic, at)
    broker.start()
    fault_case.send(refill)


def assert_cut(fault_case, start, end):
    """Halted as truncation of exactly these offsets."""
    finding = fault_case.halts("truncation").finding
    assert (finding.lost_start, finding.lost_end) == (start, end)
    assert fault_case.is_untouched


@pytest.mark.slow
@pytest.mark.parametrize("refill", [10, 200])
def test_cut_tail(fault_case, broker, refill):
    """Detection: the known leader epoch ends below the position (KIP-101, KIP-320)."""
    fault_case.follow()
    fault_case.lands(each_alone=True)
    loses_tail(fault_case, broker, 60, refill=refill)
    assert_cut(fault_case, 60, LANDED)
    past = "past" if 60 + refill > LANDED else "below"
    fault_case.judge(9, f"kill -9, tail cut, refilled {past} the position")


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["accept_loss", "restart"])
def test_a_backfill_over_a_cut_that_was_decided(fault_case, broker, choice):
    """Below the cut, the rows that stand there are replaced; a record never gets a second row."""
    fault_case.follow()
    fault_case.lands(each_alone=True)
    loses_tail(fault_case, broker, 60, refill=20)
    assert_cut(fault_case, 60, LANDED)
    fault_case.judge(9, f"kill -9, tail cut; {choice}, then a backfill over the cut")
    decide(fault_case.stream, choice)
    fault_case.run()
    columns = ("generation", "offset", "value", "topic_id", "partition")
    before = table_rows(fault_case.stream, *columns)
    asked = {"topic": fault_case.topic, "partition": 0, "start_offset": 30, "end_offset": 80}
    done = fault_case.harness.run(fault_case.stream, "over", fault_case.spark, ranges=[asked])
    parts = [(r.generation, r.start_offset, r.end_offset) for r in done.plan.ranges]
    assert parts == ([(0, 30, 60), (1, 60, 80)] if choice == "accept_loss" else [(1, 30, 80)])
    assert sum(v.rows for v in done.verified) == 50
    assert table_rows(fault_case.stream, *columns) == before
    found, findings = fault_case.harness.audit(fault_case.stream)
    assert (found.clean, findings) == (True, ())


@pytest.mark.slow
def test_cut_tail_that_nobody_has_read_yet(fault_case, broker):
    """Detection: the epoch ends below the high watermark that was seen with it."""
    fault_case.follow(limits={"max_records_per_run": LANDED})
    fault_case.send(LANDED + 50, each_alone=True)
    fault_case.run()
    fault_case.mark()
    loses_tail(fault_case, broker, LANDED + 20, refill=200)
    assert_cut(fault_case, LANDED + 20, LANDED + 50)
    fault_case.judge(9, "kill -9, an unread tail cut, refilled past it")


@pytest.mark.slow
def test_a_frozen_plan_that_was_cut_unread(fault_case, broker):
    """Detection: what the plan had seen is known, though nothing of it was ever read."""
    fault_case.follow()
    fault_case.lands(each_alone=True)
    fault_case.send(50, each_alone=True)
    with open_run(fault_case.stream, "frozen", RunRequest()) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
    loses_tail(fault_case, broker, LANDED + 20, refill=200)
    assert_cut(fault_case, LANDED + 20, LANDED + 50)
    fault_case.judge(9, "kill -9, the tail of a frozen plan cut, refilled past it")


@pytest.mark.slow
def test_a_backfill_that_wakes_after_a_cut(fault_case, broker, monkeypatch):
    """Its rows are of the old log; the new one is read whole, in a generation of its own."""
    fault_case.follow(limits={"max_records_per_run": LANDED})
    fault_case.send(LANDED + 50, each_alone=True)
    fault_case.run()
    fault_case.mark()

    def sleeps(here):
        if here != "advance:moving":
            return
        monkeypatch.undo()
        loses_tail(fault_case, broker, LANDED + 20, refill=60)
        assert fault_case.halts("truncation").finding.lost_start == LANDED + 20
        decide(fault_case.stream, "accept_loss")

    monkeypatch.setattr(closing, "reach", sleeps)
    asked = {"topic": fault_case.topic, "partition": 0}
    asked |= {"start_offset": LANDED, "end_offset": LANDED + 50}
    fault_case.harness.run(fault_case.stream, "asleep", fault_case.spark, ranges=[asked])
    fault_case.stream = fault_case.harness.stream()
    for _ in range(2):
        fault_case.run()
    columns = ("generation", "offset")
    rows = table_rows(fault_case.stream, *columns)
    new = sorted(offset for generation, offset in rows if generation == 1)
    assert new == list(range(LANDED + 20, LANDED + 80))
    assert len(rows) == LANDED + 50 + 60
    found, findings = fault_case.harness.audit(fault_case.stream)
    assert (found.clean, findings) == (True, ())


@pytest.mark.slow
def test_wiped_and_refilled(fault_case, broker):
    """Detection: the known leader epoch ends at 0 (KIP-320)."""
    fault_case.follow()
    fault_case.lands()
    kill(broker)
    wipe(broker, fault_case.topic)
    broker.start()
    fault_case.send(LANDED * 3)
    assert_cut(fault_case, 0, LANDED)
    fault_case.judge(10, "wiped, refilled past the position")


@pytest.mark.parametrize(
    "where",
    [
        "around it",
        pytest.param("up to inside it", marks=pytest.mark.slow),
        pytest.param("from inside it on", marks=pytest.mark.slow),
    ],
)
def test_missing_middle_segment(fault_case, broker, where):
    """Count of committed rows: nothing in the metadata shows it."""
    fault_case.follow(config={"internal.segment.bytes": "2000"})
    fault_case.send(LANDED, each_alone=True)
    start, end = middle_segment(broker, fault_case.topic)
    inside = (start + end) // 2
    assert 10 < start < inside < end < LANDED
    before = inside if where == "from inside it on" else 10
    until = inside if where == "up to inside it" else LANDED
    fault_case.stream = fault_case.harness.stream(limits={"max_records_per_run": before})
    fault_case.run()
    fault_case.mark()
    fault_case.stream = fault_case.harness.stream(limits={"max_records_per_run": until - before})
    kill(broker)
    remove_segment(broker, fault_case.topic, start)
    broker.start()
    finding = fault_case.halts("log_hole").finding
    assert (finding.lost_start, finding.lost_end) == (max(start, before), min(end, until))
    if until < end:  # the rest is found by the run that comes to it
        decide(fault_case.stream, "accept_loss")
        fault_case.run()
        finding = fault_case.halts("log_hole").finding
        assert (finding.lost_start, finding.lost_end) == (until, end)
    fault_case.judge(11, f"missing middle segment, range {where}")


@pytest.mark.slow
def test_unclean_election(tmp_path, spark, report):
    """Detection: the known leader epoch ends below the position (KIP-320)."""
    with ThreeBrokers(tmp_path / "kafka") as brokers:
        fault_case = FaultCase(StreamHarness(brokers, tmp_path, "election"), spark, report)
        brokers.create_topic(fault_case.topic)
        fault_case.stream = fault_case.harness.stream()
        fault_case.lands(10)
        brokers.unclean_election(fault_case.topic, while_alone=lambda: fault_case.lands(20))
        fault_case.send(50)
        assert_cut(fault_case, 10, 30)
        fault_case.judge(12, "unclean election, refilled past the position")
