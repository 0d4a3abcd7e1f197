"""Rows 9-12: the log lost its end, its middle, or all of it; the topic id stays the same."""

import pytest

from devstack.broker import Broker
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
from tests.faults.trial import LANDED, Trial
from tests.real import World, decide


@pytest.fixture
def broker(tmp_path):
    """A broker of the test's own, whose disk may be harmed."""
    with started(Broker(tmp_path / "kafka", settings=QUICK_RESTART)) as found:
        yield found


@pytest.fixture
def trial(broker, tmp_path, spark, report):
    return Trial(World(broker, tmp_path, "cut"), spark, report)


def assert_cut(trial, start, end):
    """Halted as truncation of exactly these offsets."""
    finding = trial.halts("truncation").finding
    assert (finding.lost_start, finding.lost_end) == (start, end)
    assert trial.is_untouched


@pytest.mark.slow
@pytest.mark.parametrize("refill", [10, 200])
def test_cut_tail(trial, broker, refill):
    """Detection: the known leader epoch ends below the position (KIP-101, KIP-320)."""
    trial.follow()
    trial.lands(each_alone=True)
    kill(broker)
    cut_tail(broker, trial.topic, 60)
    broker.start()
    trial.send(refill)
    assert_cut(trial, 60, LANDED)
    past = "past" if 60 + refill > LANDED else "below"
    trial.judge(9, f"kill -9, tail cut, refilled {past} the position")


@pytest.mark.slow
def test_cut_tail_that_nobody_has_read_yet(trial, broker):
    """Detection: the epoch ends below the high watermark that was seen with it."""
    trial.follow(limits={"max_records_per_run": LANDED})
    trial.send(LANDED + 50, each_alone=True)
    trial.run()
    trial.mark()
    kill(broker)
    cut_tail(broker, trial.topic, LANDED + 20)
    broker.start()
    trial.send(200)
    assert_cut(trial, LANDED + 20, LANDED + 50)
    trial.judge(9, "kill -9, an unread tail cut, refilled past it")


@pytest.mark.slow
def test_wiped_and_refilled(trial, broker):
    """Detection: the known leader epoch ends at 0 (KIP-320)."""
    trial.follow()
    trial.lands()
    kill(broker)
    wipe(broker, trial.topic)
    broker.start()
    trial.send(LANDED * 3)
    assert_cut(trial, 0, LANDED)
    trial.judge(10, "wiped, refilled past the position")


@pytest.mark.parametrize(
    "where",
    [
        "around it",
        pytest.param("up to inside it", marks=pytest.mark.slow),
        pytest.param("from inside it on", marks=pytest.mark.slow),
    ],
)
def test_missing_middle_segment(trial, broker, where):
    """Count of committed rows: nothing in the metadata shows it."""
    trial.follow(config={"internal.segment.bytes": "2000"})
    trial.send(LANDED, each_alone=True)
    start, end = middle_segment(broker, trial.topic)
    inside = (start + end) // 2
    assert 10 < start < inside < end < LANDED
    before = inside if where == "from inside it on" else 10
    until = inside if where == "up to inside it" else LANDED
    trial.stream = trial.world.stream(limits={"max_records_per_run": before})
    trial.run()
    trial.mark()
    trial.stream = trial.world.stream(limits={"max_records_per_run": until - before})
    kill(broker)
    remove_segment(broker, trial.topic, start)
    broker.start()
    finding = trial.halts("log_hole").finding
    assert (finding.lost_start, finding.lost_end) == (max(start, before), min(end, until))
    if until < end:  # the rest is found by the run that comes to it
        decide(trial.stream, "accept_loss")
        trial.run()
        finding = trial.halts("log_hole").finding
        assert (finding.lost_start, finding.lost_end) == (until, end)
    trial.judge(11, f"missing middle segment, range {where}")


@pytest.mark.slow
def test_unclean_election(tmp_path, spark, report):
    """Detection: the known leader epoch ends below the position (KIP-320)."""
    with ThreeBrokers(tmp_path / "kafka") as brokers:
        trial = Trial(World(brokers, tmp_path, "election"), spark, report)
        brokers.create_topic(trial.topic)
        trial.stream = trial.world.stream()
        trial.lands(10)
        brokers.unclean_election(trial.topic, while_alone=lambda: trial.lands(20))
        trial.send(50)
        assert_cut(trial, 10, 30)
        trial.judge(12, "unclean election, refilled past the position")
