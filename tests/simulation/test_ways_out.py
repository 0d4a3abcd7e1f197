"""Every halt has a way out that ends, whatever people choose."""

from collections import Counter

import pytest

from tests.simulation.histories import play
from tests.simulation.known import known_fault
from tests.simulation.ways_out import ways_out


def walk(cases):
    """What failed, by case; and the classes of incidents that were met."""
    failed, met = {}, Counter()
    for case in cases:
        outcome = play(case.history())
        met += outcome.incidents
        if outcome.problems and not known_fault(outcome.problems):
            failed[case] = outcome.problems[0]
    return failed, met


def test_some_ways_out_end():
    """Every twenty-ninth."""
    assert walk(list(ways_out())[::29])[0] == {}


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_every_way_out_ends():
    """Exhaustive; every class of findings is met."""
    failed, met = walk(ways_out())
    assert failed == {}
    assert len(met) == 11, met
