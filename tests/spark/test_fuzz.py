"""Random histories of changes: the table is as its definition has it."""

from dataclasses import replace

import pytest

from tests.fuzz.histories import History, make_history
from tests.fuzz.play import play

SEEDS = [pytest.param("plain", 2, marks=pytest.mark.slow), ("keys", 1)]


@pytest.mark.parametrize(("profile", "seed"), SEEDS, ids=lambda value: str(value))
def test_whatever_happens_the_table_is_the_fold_of_its_changes(
    in_process_spark, tmp_path, profile, seed
):
    """In any portions; so is the view between two folds, and a look finds nothing wrong."""
    history = make_history(seed, profile)
    kept = tuple(event for event in history.events if event[0] != "history")
    outcome = play(replace(history, events=kept), in_process_spark, tmp_path)
    assert not outcome.problems, history.dump()
    assert outcome.counts["tables"] > 1


def test_a_history_is_replayed_as_it_was_printed():
    """The same events; and a seed gives the same ones each time."""
    one = make_history(3, "anything")
    again = History.load(one.dump())
    assert again == make_history(3, "anything")
    assert again.events == one.events
