"""Why a run took so long: its phases, which add up."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.worlds.build import NOW
from tideline.model.current import Folding
from tideline.model.decoding import Decoding
from tideline.model.head import Head
from tideline.model.timings import PHASES, SparkTimes, Timings
from tideline.rules.stream_state import summarize


def after(seconds):
    return NOW + timedelta(seconds=seconds)


def ms(seconds):
    return round(after(seconds).timestamp() * 1000)


TIMINGS = Timings(
    run_id="one",
    begun_at=after(0),
    frozen_at=after(0.5),
    spark=SparkTimes(ms(2), ms(8), ms(11.5), ms(11.75)),
    closed_at=after(12.25),
)


def test_the_phases_add_up():
    """From the first planning to the moved head."""
    assert TIMINGS.seconds == pytest.approx((0.5, 1.5, 6, 3.5, 0.25, 0.5))
    assert sum(TIMINGS.seconds) == pytest.approx(12.25)
    assert str(TIMINGS.by_phase) == (
        "run one took 12 s: planning 0.5 s, waiting for its next task 1.5 s, waiting for Spark 6 s,"
        " reading 3.5 s, committing 0.2 s, verifying 0.5 s"
    )


@pytest.mark.parametrize(
    "spark",
    [
        SparkTimes(ms(2), ms(-3600), ms(-3590), ms(11.75)),
        SparkTimes(ms(2), ms(3600), ms(3610), ms(11.75)),
        SparkTimes(ms(-5), ms(-4), ms(-3), ms(-2)),
    ],
    ids=["a driver's clock is slow", "it is fast", "another run had committed before"],
)
def test_clocks_that_differ_make_no_phase_negative(spark):
    """And all together stay what the run's own clock says."""
    seconds = replace(TIMINGS, spark=spark).seconds
    assert len(seconds) == len(PHASES)
    assert min(seconds) >= 0
    assert sum(seconds) == pytest.approx(12.25)


def test_a_status_has_them_by_name():
    """None before a run has told them."""
    head = Head(timings=TIMINGS)
    shown = summarize("orders", head, Decoding(), Folding(), (), (), None, NOW).run_seconds
    assert shown.run_id == "one"
    assert (shown.planning, shown.waiting_for_spark) == pytest.approx((0.5, 6))
    assert shown.verifying == pytest.approx(0.5)
    empty = summarize("orders", Head(), Decoding(), Folding(), (), (), None, NOW)
    assert empty.run_seconds is None
