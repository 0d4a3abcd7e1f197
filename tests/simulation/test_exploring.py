"""A slice of the exploration; `make simulation` explores for longer."""

import pytest

from tests.simulation.explore import Tally, explore, until_met
from tests.simulation.histories import History, make_history, play
from tests.simulation.known import known_fault
from tests.simulation.shrink import kind_of, shrink

SLICES = [range(start, start + 60) for start in range(1, 241, 60)]


@pytest.mark.parametrize("seeds", SLICES, ids=lambda s: f"{s.start}-{s.stop - 1}")
def test_random_histories_end_well(seeds):
    """After anything: produced = landed once, or recorded as lost; and every halt has a way out."""
    failed = {
        history.seed: outcome.problems[0]
        for history, outcome in explore(seeds, Tally())
        if outcome.problems and not known_fault(outcome.problems)
    }
    assert not failed, "make simulation SEED=... shrinks them"


def test_what_chance_does_not_bring_together_is_made_to_meet():
    """Two of the rarest kinds; so `--pairs` leaves no two kinds of events out."""
    tally = Tally()
    failed = [o.problems for _, o in until_met(("occupy", "vanish"), range(50), tally)]
    assert tally.pairs["occupy", "vanish"] == 1
    assert not any(failed)


def test_the_same_history_goes_the_same_way_each_time():
    """Otherwise no seed would reproduce anything."""
    one, two = (play(make_history(11)) for _ in range(2))
    assert [p.trace for p in one.world.processes] == [p.trace for p in two.world.processes]
    assert one.world.table.versions == two.world.table.versions


def test_a_failing_history_shrinks_to_what_it_needs_and_replays(monkeypatch):
    """A breach made on purpose: whoever truncates a log fails."""
    monkeypatch.setattr(
        "tests.simulation.oracle.judge",
        lambda world, *_: ["the log was cut"] if world.facts["truncation"] else [],
    )
    long = make_history(3)
    events = (*long.events, ("truncate", 0, 0, 7, 9), ("produce", 0, 0, 5))
    short = shrink(History(3, {"t": 1}, {"kafka": {"topics": ["t"]}}, events))
    assert [e[0] for e in short.events] == ["truncate"]
    assert kind_of(play(History.load(short.dump())).problems) == "the log was cut"
