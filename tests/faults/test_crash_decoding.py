"""Decoding killed with -9 or stopped, in a run, a repetition and a redrive: three tables agree."""

from datetime import UTC, datetime

import pytest

from devstack.process import wait_until
from tideline.failpoints import DECODE_PLACES
from tideline.wiring import open_ledger

SHORT = 1.0
"""Seconds that a stopped run's leases last."""

UNCOMMITTED = DECODE_PLACES[1 : DECODE_PLACES.index("decode:committed")]
"""Stopped there, a decoding has a plan and has committed nothing: nor may it later on. At its lease
it has no plan yet, and may find that others have left it nothing to do."""


def quick(*some):
    """All places; those that are not named have their turn in the slow suite."""
    return [p if p in some else pytest.param(p, marks=pytest.mark.slow) for p in DECODE_PLACES]


@pytest.fixture
def crash(typed_crash):
    """A stream with typed tables, one of whose runs dies."""
    return typed_crash


@pytest.mark.parametrize("place", quick("decode:committed"))
def test_the_same_run_again_after_a_kill(crash, place):
    """R1, R4: the landing stands; the run executes its own plan to decode."""
    crash.dies(place)
    crash.repeat()
    crash.judge(f"run killed at {place}, run again")


@pytest.mark.slow
@pytest.mark.parametrize("place", DECODE_PLACES)
def test_another_decoding_after_a_kill(crash, place):
    """R3: whoever decodes next finishes the plan; the dead run, cleared later, changes nothing."""
    crash.dies(place)
    crash.brings()
    for run_id in ("two", "three", "one"):
        crash.repeat(run_id)
    crash.judge(f"run killed at {place}, then other runs")


@pytest.mark.slow
@pytest.mark.parametrize("place", DECODE_PLACES)
def test_a_repetition_is_killed(crash, place):
    """R4: the rows stand all the time, but for those between the two commits."""
    crash.repeat()
    before = crash.places()
    crash.dies(place, "decode")
    assert crash.places() == before
    crash.repeat()
    crash.judge(f"decoding once more killed at {place}, run again")


@pytest.mark.parametrize("again", [pytest.param("the same", marks=pytest.mark.slow), "another run"])
@pytest.mark.parametrize("place", quick("decode:committed"))
def test_a_redrive_is_killed(crash, place, again):
    """A record may stand in both tables for a while, and never in none."""
    crash.repeat()
    crash.knows_the_second()
    crash.dies(place, "redrive", "again")
    assert {(p, o) for p, o, _ in crash.places()} == set(crash.expected)
    if again == "another run":
        crash.brings()
        crash.repeat("two")
    crash.redrive("again")
    crash.judge(f"redrive killed at {place}, then {again}")


def expired(crash):
    """Nobody's lease is good any more: a stopped holder does not renew it."""
    now, state = datetime.now(UTC), open_ledger(crash.stream).read()
    return all(lease.expires_at < now for lease in state.control.leases)


def stops(crash, place, command="run", run_id="one"):
    """A command that has stopped at a place, and whose leases have run out."""
    zombie = crash.start(command, run_id, point=f"{place}:stop", lease_seconds=SHORT)
    zombie.stopped()
    wait_until(lambda: expired(crash), "the leases hold on", 30)
    return zombie


def resumes(crash, zombie, place):
    """The zombie goes on: it moves no record, and leaves no plan to others."""
    before = crash.places()
    decoding = open_ledger(crash.stream).read().decoding
    zombie.resume()
    status = zombie.ended()
    assert status == 4 if place in UNCOMMITTED else status in (0, 4), zombie.said
    assert crash.places() == before
    assert open_ledger(crash.stream).read().decoding == decoding


@pytest.mark.parametrize("place", quick())
def test_a_stopped_decoding_resumes_after_others_went_on(crash, place):
    """R5: another run has decoded the zombie's records; the zombie changes nothing any more."""
    with stops(crash, place) as zombie:
        crash.brings()
        crash.repeat("two")
        resumes(crash, zombie, place)
    crash.repeat("one")
    crash.judge(f"decoding stopped at {place}, resumed after another")


@pytest.mark.slow
@pytest.mark.parametrize("place", DECODE_PLACES)
def test_a_stopped_redrive_resumes_after_the_same_redrive(crash, place):
    """R5: what it has written does not replace the newer copy."""
    crash.repeat()
    crash.knows_the_second()
    with stops(crash, place, "redrive", "again") as zombie:
        crash.redrive("again")
        resumes(crash, zombie, place)
    crash.judge(f"redrive stopped at {place}, resumed after the same one")
