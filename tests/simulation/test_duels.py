"""A slice of the duels; all of them are slow."""

from collections import Counter

import pytest

from tests.simulation.duels import (
    SERIES,
    decoders,
    duels,
    erasures,
    fight,
    folders,
    others,
    put_back,
    sleepers,
    surprises,
)
from tests.simulation.known import known_fault

AT_LEAST = {
    "duels": 60_000,
    "surprises": 35_000,
    "sleepers": 17_000,
    "others": 690 + 645,
    "put_back": 1_150,
    "decoders": 1_200,
    "folders": 1_200,
    "erasures": 1_200,
}
"""How many histories a series has at least: none of them may have become empty."""


def failures(series, every, played=None):
    """Duels that end badly, played at every n-th boundary, each from another one on."""
    failed = {}
    for number, duel in enumerate(series):
        for history, problems in fight(duel, every, number % every):
            if played is not None:
                played[duel.first] += 1
            if problems and not known_fault(problems):
                failed[duel, history.seed] = problems[0]
    return failed


def test_two_processes_and_what_may_befall_the_first():
    """At some boundaries of every eleventh pair."""
    assert failures(list(duels())[::11], every=41) == {}


def test_the_world_changes_at_a_boundary():
    """At some boundaries of every seventh."""
    assert failures(list(surprises())[::7], every=41) == {}


def test_a_landing_wakes_up_after_its_plan_was_closed():
    """R5: it has read what is recorded as lost by now, and commits nothing."""
    assert failures(list(sleepers())[::9], every=23) == {}


def test_whoever_decodes_dies_or_sleeps():
    """Each raw row has one typed row, of the same record."""
    assert failures(list(decoders())[::150], every=67) == {}


def test_whoever_folds_dies_or_sleeps():
    """Each key has one row, of its last decoded change."""
    assert failures(list(folders())[::150], every=67) == {}


def test_others_change_the_table_at_a_boundary():
    """R13: of a run, a replay, a backfill, a rewind, a move, an audit and a maintenance."""
    assert failures(list(others())[::41], every=41) == {}


def test_a_ledger_is_put_back_at_a_boundary():
    """An older one, whoever is at work: what the table tells is taken over, nothing is lost."""
    assert failures(list(put_back())[::13], every=41) == {}


def test_whoever_erases_meets_a_ledger_or_a_table_put_back_or_left_behind():
    """What was erased and is refused stays out, in tables of before as well; no row rises."""
    assert failures(list(erasures())[::9], every=67) == {}


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", SERIES)
def test_every_boundary(name):
    """Exhaustive: every pair, at every boundary; with `-s` it says how many that were."""
    played = Counter()
    assert failures(SERIES[name](), 1, played) == {}
    print(f"{name}: {played.total()} histories: {dict(played)}")
    assert played.total() > AT_LEAST[name]
