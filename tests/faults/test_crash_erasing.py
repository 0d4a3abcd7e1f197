"""An erasure killed with -9 at each of its places: it goes on, without the key."""

import signal

import pytest

from tests.faults.killable import ended_at
from tests.worlds.current_streams import Changing
from tests.worlds.traces import traces_of
from tideline.failpoints import ERASE_PLACES
from tideline.model.request import RunRequest
from tideline.operations.erasing import finish_erasures
from tideline.operations.questions import require_clean
from tideline.wiring import open_ledger, open_run, open_tables

QUICK = "erase:out"
PLACES = [p if p == QUICK else pytest.param(p, marks=pytest.mark.slow) for p in ERASE_PLACES]
PLANTED = 47114711


@pytest.mark.parametrize("place", PLACES)
def test_an_erasure_is_killed(harness, spark, place):
    """Others land, fold and clear before it goes on; no file and no row is left of the key."""
    orders = Changing(harness, spark)
    for number in range(2):
        orders.sends(("u", PLANTED, "word", number), *(("u", n, "x", number) for n in range(3)))
        orders.run(f"run-{number}")
    file = orders.harness.folder / "orders.yaml"
    how = ("--reason", "asked", "--now", "--yes", "--json")
    status, said = ended_at(place, spark, "erase", file, "--key", f"key_id={PLANTED}", *how)
    assert status == -signal.SIGKILL, said
    orders.sends(("u", 1, "y", 7))
    orders.run("run-2")
    orders.run("run-1")  # a clear
    with open_run(orders.stream, "goes-on", RunRequest(), spark) as run:
        finish_erasures(run, open_tables(orders.stream))
    assert traces_of(orders.stream, PLANTED, "word") == []
    assert orders.rows() == {0: ("x", 1), 1: ("y", 7), 2: ("x", 1)}
    assert open_ledger(orders.stream).read().erasing.open == ()
    with open_run(orders.stream, "audit", RunRequest(), spark) as run:
        assert require_clean(run, 4).erased == 2
