"""A slice of the duels; all of them are slow."""

import pytest

from tests.simulation.duels import decoders, duels, fight, sleepers, surprises
from tests.simulation.known import known_fault


def failures(series, every):
    """Duels that end badly, played at every n-th boundary, each from another one on."""
    return {
        (duel, history.seed): problems[0]
        for number, duel in enumerate(series)
        for history, problems in fight(duel, every, number % every)
        if problems and not known_fault(problems)
    }


def test_two_processes_and_what_may_befall_the_first():
    """At some boundaries of every eleventh pair."""
    assert failures(list(duels())[::11], every=41) == {}


def test_the_world_changes_at_a_boundary():
    """At some boundaries of every third."""
    assert failures(list(surprises())[::3], every=41) == {}


def test_a_landing_wakes_up_after_its_plan_was_closed():
    """R5: it has read what is recorded as lost by now, and commits nothing."""
    assert failures(list(sleepers())[::9], every=23) == {}


def test_whoever_decodes_dies_or_sleeps():
    """Each raw row has one typed row, of the same record."""
    assert failures(list(decoders())[::150], every=67) == {}


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("series", [duels, surprises, sleepers, decoders])
def test_every_boundary(series):
    """Exhaustive: every pair, at every boundary."""
    assert failures(series(), every=1) == {}
