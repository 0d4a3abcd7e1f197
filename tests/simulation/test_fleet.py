"""Fleets in the simulated world: what a green window covers is landed, for each of its topics."""

from collections import Counter
from pathlib import Path

import pytest

from tests.simulation.fleet import explore, play
from tests.simulation.histories import History

KEPT = sorted(Path(__file__).with_name("of_fleets").glob("*.history"))


def test_random_histories_of_fleets_end_well():
    """Windows beside runs of one topic, held leases, kills, clears, another number of shards."""
    judged = Counter()
    failed = {h.seed: p.problems[0] for h, p in explore(range(1, 31), judged) if p.problems}
    assert not failed, "python -m tests.simulation.fleet --seed ... shrinks them"
    assert {f"backfill: {s}" for s in ("done", "closed_before")} <= judged.keys()
    assert {"live: busy", "live: done"} <= judged.keys()


@pytest.mark.parametrize("file", KEPT, ids=lambda f: f.stem)
def test_what_a_rule_taken_out_breaks_ends_well_with_the_rule(file):
    """Each kept history breaks a promise without one rule of a batch (`tests/mutants`)."""
    assert play(History.load(file.read_text())).problems == []
