"""Several event types: decoding killed with -9 between commits; five tables agree in the end."""

import pytest

from tideline.failpoints import DECODE_PLACES

_MIDDLE = ("decode:frozen", "decode:committed", "decode:noted")
"""Between the plan and its end. At the second, one of three typed tables has its rows."""


@pytest.fixture
def crash(types_crash):
    """A stream with three event types, one of whose runs dies."""
    return types_crash


@pytest.mark.parametrize(
    "place",
    [p if p == "decode:committed" else pytest.param(p, marks=pytest.mark.slow) for p in _MIDDLE],
)
def test_the_same_run_again_after_a_kill(crash, place):
    """R1, R4: the landing stands; the run executes its own plan to decode."""
    crash.dies(place)
    crash.repeat()
    crash.judge(f"run of three types killed at {place}, run again")


@pytest.mark.slow
@pytest.mark.parametrize("place", DECODE_PLACES)
def test_another_decoding_after_a_kill(crash, place):
    """R3: whoever decodes next finishes the plan; the dead run, cleared later, changes nothing."""
    crash.dies(place)
    crash.brings()
    for run_id in ("two", "three", "one"):
        crash.repeat(run_id)
    crash.judge(f"run of three types killed at {place}, then other runs")


@pytest.mark.slow
@pytest.mark.parametrize("place", _MIDDLE)
def test_a_redrive_is_killed(crash, place):
    """A record may stand in quarantine and in its type's table for a while, and never in none."""
    crash.repeat()
    crash.knows_the_second()
    crash.dies(place, "redrive", "again")
    assert {(p, o) for p, o, _ in crash.places()} == set(crash.expected)
    crash.brings()
    crash.repeat("two")
    crash.redrive("again")
    crash.judge(f"redrive into a third type killed at {place}")
