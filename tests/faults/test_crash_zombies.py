"""Row 22 and the writer's lease: a run stopped anywhere, and resumed after its successor."""

import signal
from datetime import UTC, datetime

import pytest

from devstack.process import wait_until
from tests.worlds.streams import head
from tideline.failpoints import PLACES
from tideline.wiring import open_ledger

SHORT = 1.0
"""Seconds that a stopped run's leases last."""

UNWRITTEN = PLACES[PLACES.index("lease:writer") : PLACES.index("ingest:committed")]
"""Stopped there, a run holds the writer's lease and has committed nothing: nor may it later on."""


def expired(crash):
    """Nobody's lease is good any more: a stopped holder does not renew it."""
    now, state = datetime.now(UTC), open_ledger(crash.stream).read()
    return all(lease.expires_at < now for lease in state.control.leases)


def stops(crash, place):
    """A run that has stopped at a place, and whose leases have run out."""
    zombie = crash.start("one", point=f"{place}:stop", lease_seconds=SHORT)
    zombie.stopped()
    wait_until(lambda: expired(crash), "the leases hold on", 30)
    return zombie


def resumes(crash, zombie, place):
    """The zombie goes on: it changes no row and no position, and nobody is alarmed.

    Before its rows were committed it is fenced, and the table stays at its version.
    """
    rows, version, positions = crash.rows(), crash.version(), head(crash.stream)
    zombie.resume()
    status = zombie.ended()
    assert status in (0, 4), zombie.said
    assert crash.rows() == rows
    assert head(crash.stream) == positions
    if place in UNWRITTEN:
        assert status == 4
        assert crash.version() == version


@pytest.mark.parametrize(
    "place",
    [p if p == "ingest:leased" else pytest.param(p, marks=pytest.mark.slow) for p in PLACES],
)
def test_a_stopped_run_resumes_after_its_retry(crash, place):
    """R5: the lease has run out, the retry has a larger token; the zombie publishes nothing."""
    crash.waits()
    with stops(crash, place) as zombie:
        assert crash.repeat().status == "done"
        resumes(crash, zombie, place)
    crash.judge_crash(f"run stopped at {place}, resumed after its retry", lands_more=False)


@pytest.mark.slow
@pytest.mark.parametrize("place", PLACES)
def test_a_stopped_run_resumes_after_others_went_on(crash, place):
    """R3, R5: another run has finished the zombie's plan, and one more has landed behind it."""
    crash.waits()
    with stops(crash, place) as zombie:
        crash.send(20)
        crash.repeat("two")
        crash.repeat("three")
        resumes(crash, zombie, place)
    crash.judge_crash(f"run stopped at {place}, resumed after two others", lands_more=False)


@pytest.mark.slow
@pytest.mark.parametrize("place", UNWRITTEN)
def test_a_stopped_replay_resumes_after_the_same_replay(crash, place):
    """R4, R5: what it has written does not replace the newer copy."""
    crash.waits()
    crash.repeat()
    with stops(crash, place) as zombie:
        crash.repeat()
        resumes(crash, zombie, place)
    crash.judge_crash(f"replay stopped at {place}, resumed after another", lands_more=False)


@pytest.mark.slow
@pytest.mark.parametrize("place", UNWRITTEN)
def test_a_stopped_run_resumes_after_an_overlapping_range(crash, place):
    """R5: its plan was superseded, and the next one took over part of its range."""
    crash.waits()
    with stops(crash, place) as zombie:
        crash.send(20)
        crash.harness.delete_records(before=40)
        crash.forget({r for r in crash.log.acknowledged if r[2] < 40})
        crash.policy("retention_loss", "accept_loss")
        crash.repeat("two")
        resumes(crash, zombie, place)
    crash.judge_crash(f"run stopped at {place}, resumed after [40, 120)", lands_more=False)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["verify:verified", "advance:moving", "advance:advanced"])
def test_a_stopped_run_that_recovers_another_one_resumes_after_its_retry(crash, place):
    """R1, R5: its run id has one plan, whoever finished what it had begun for another run."""
    crash.waits()
    with crash.start("dies", point="ingest:committed:kill", lease_seconds=SHORT) as dying:
        assert dying.ended() == -signal.SIGKILL, dying.said
    crash.send(20)
    with stops(crash, place) as zombie:
        closed = crash.repeat()
        crash.send(20)
        resumes(crash, zombie, place)
    assert open_ledger(crash.stream).find_run("one") == closed
    crash.repeat("next")
    crash.judge_crash(f"run stopped at {place} of another's plan, resumed after its retry")
