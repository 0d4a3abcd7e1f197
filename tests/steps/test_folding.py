"""The current table over the simulated world: what a fold says of itself."""

from tests.simulation.histories import History, play

OPTIONS = {
    "kafka": {"topics": ["t"]},
    "decode": {"value": {"format": "json"}},
    "current": {"key": ["k"], "deletes": {"tombstone": False}, "table": {"buckets": 2}},
    "on_reset": {"retention_loss": "accept_loss"},
}
LANDS = (("produce", 0, 0, 6), ("live", 0), ("finish", 0))


def folding(*events):
    """The fold's head after events, brought to their end."""
    outcome = play(History(1, {"t": 1}, OPTIONS, events))
    assert outcome.problems == []
    return outcome.world.state().folding


def test_after_an_accepted_loss_the_table_is_unproven():
    """A delete may be among what was lost; later folds leave the time as it is."""
    assert folding(*LANDS).unproven_since is None
    lost = (*LANDS, ("produce", 0, 0, 4), ("expire", 0, 0, 100), *LANDS)
    first = folding(*lost).unproven_since
    assert first is not None
    later = folding(*lost, ("pass_time", 60, 0), *LANDS)
    assert (later.unproven_since, later.folded_at > first) == (first, True)
    anew = folding(*lost, ("pass_time", 60, 0), ("drop_current",), *LANDS)
    assert anew.unproven_since > first
