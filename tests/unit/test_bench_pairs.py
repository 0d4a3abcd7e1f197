"""The statistics of the benchmarks."""

import random

import pytest

from bench.defaults import AS_IT_COMES
from bench.pairs import estimate, orders
from devstack.spark_apps import DELTA_SESSION
from tideline.spark.session import DECODERS, PINNED, SESSION


def test_each_side_goes_first_equally_often():
    """What the first of a pair pays, both pay."""
    for pairs in (2, 10, 50):
        first = [a for a, _ in orders(pairs, seed=3)]
        assert first.count(0) == first.count(1) == pairs / 2


def test_the_order_is_random_and_can_be_repeated():
    """A load that comes every other minute must not meet one side only."""
    assert orders(20, seed=1) == orders(20, seed=1)
    assert len({tuple(orders(20, seed=s)) for s in range(5)}) > 1


def test_a_drift_over_all_pairs_falls_out():
    """The machine becomes three times slower; the ratio stays what it is."""
    drift = [1 + n / 5 for n in range(10)]
    found = estimate(drift, [2 * d for d in drift])
    assert (found.ratio, found.low, found.high, found.pairs) == (2, 2, 2, 10)
    assert not found.is_even


def test_the_interval_holds_the_true_ratio_as_often_as_it_says():
    """95 %, give or take what 100 trials allow."""
    chance, held = random.Random(7), 0
    for fault_case in range(100):
        ours = [chance.lognormvariate(0, 0.1) for _ in range(10)]
        others = [1.3 * chance.lognormvariate(0, 0.1) for _ in range(10)]
        found = estimate(ours, others, seed=fault_case)
        held += found.low <= 1.3 <= found.high
    assert held >= 88


@pytest.mark.parametrize(("ours", "others"), [([], []), ([1.0], [1.0, 2.0])])
def test_what_are_no_pairs_is_refused(ours, others):
    """A missing timing must not shift the rest."""
    with pytest.raises(ValueError, match="are no pairs"):
        estimate(ours, others)


def test_a_peer_as_it_comes_has_none_of_our_sessions_settings():
    """What our session learns to set next has to be set back for it."""
    ours = {**SESSION, **DELTA_SESSION}
    harmless = {"spark.sql.session.timeZone", f"spark.sql.catalog.{DECODERS}", *PINNED}
    assert set(AS_IT_COMES) == set(ours) - harmless
    assert all(ours[name] != value for name, value in AS_IT_COMES.items())
