"""Row 20: `tideline run` killed with -9 before and after everything that others can see."""

import pytest

from tests.faults.crash import SENT
from tideline.failpoints import PLACES

QUICK = ("detect:frozen", "ingest:leased", "ingest:committed", "advance:moving", "advance:advanced")
"""One before each thing that others can see; the rest have their turn in the slow suite."""

REPLAYED = PLACES[PLACES.index("lease:writer") :]
"""What the same run id passes once more when its rows are landed."""


@pytest.mark.parametrize(
    "place",
    [p if p in QUICK else pytest.param(p, marks=pytest.mark.slow) for p in PLACES]
    + ["table:created"],
)
def test_the_same_run_again_after_a_kill(crash, place):
    """The run's own record, and the table's proof of what is landed (R1, R3)."""
    crash.waits()
    crash.dies(place)
    assert crash.repeat().status == "done"
    crash.judge_crash(f"run killed at {place}, run again", lands_more=False)


@pytest.mark.slow
@pytest.mark.parametrize("place", [*PLACES, "table:created"])
def test_another_run_after_a_kill(crash, place):
    """R3: whoever comes next recovers what is open; the dead run, cleared later, ends green."""
    crash.waits()
    crash.dies(place)
    crash.send(20)
    crash.repeat("two")
    crash.repeat("three")
    assert crash.repeat("one").status in ("done", "nothing_to_do")
    crash.judge_crash(f"run killed at {place}, then another run", lands_more=False)


@pytest.mark.slow
def test_the_replay_after_a_kill(crash):
    """R4: the rows stand all the time, whatever the replay has written beside the table."""
    crash.waits()
    crash.repeat()
    before = crash.rows()
    assert len(before) == SENT
    for place in ("lease:live", *REPLAYED):
        crash.attempts = 0
        crash.dies(place)
        assert crash.rows() == before
        assert crash.repeat().status == "done"
        assert crash.rows() == before
        crash.tell(f"replay killed at {place}, run again")
    crash.judge_crash("all of these replays")
