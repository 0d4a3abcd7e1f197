"""Folding killed with -9 at each of its places: one row a key, and it goes on."""

import os
import signal
import time
from functools import partial

import pytest
from deltalake import DeltaTable

from tests.faults.killable import ended_at, until_it_passes
from tests.worlds.current_streams import Changing
from tideline.failpoints import FOLD_PLACES
from tideline.folding.current_checking import check_current
from tideline.folding.sweeping import find_stale_rows, sweep
from tideline.model.request import RunRequest
from tideline.wiring import open_ledger, open_run

QUICK = "fold:committed"
SWEPT = ("fold:freezing", QUICK, "fold:closing")
PLACES = [p if p == QUICK else pytest.param(p, marks=pytest.mark.slow) for p in FOLD_PLACES[1:]]


class Folding(Changing):
    """A stream whose folds die."""

    def dies(self, place, command, run_id):
        """A command that is killed at a place; it fails unless it gets there."""
        assert self.stream  # its file is written
        file = self.harness.folder / f"{self.name}.yaml"
        status, said = ended_at(place, self.spark, command, file, "--run-id", run_id, "--json")
        assert status == -signal.SIGKILL, f"{place} was not reached\n{said}"

    def repeats(self, run_id):
        """A run, again and again as long as it may pass."""
        return until_it_passes(partial(self.run, run_id))

    def judge(self, wanted):
        """The table is as the changes say, and the ledger agrees about each bucket."""
        assert self.rows() == wanted
        state = open_ledger(self.stream).read()
        assert state.folding.open is None
        assert state.folding.coverage == state.decoding.coverage
        assert state.folding.live == len(wanted)
        assert not [lease for lease in state.control.leases if lease.pid == os.getpid()]


@pytest.mark.usefixtures("database")
@pytest.mark.parametrize("place", PLACES)
def test_a_fold_is_killed(harness, spark, place, ledger):
    """The same run again; then the repetition is killed, and another run goes on."""
    stream = Folding(harness, spark)
    stream.more = {"ledger": ledger}
    stream.sends(("c", 1, "a", 1), ("c", 2, "b", 2), ("c", 3, "c", 3))
    stream.run("first")
    stream.sends(("u", 1, "a2", 1), ("d", 2), (None, 2), ("c", 4, "d", 4))
    stream.dies(place, "run", "one")
    version = DeltaTable(stream.tables["current"]).version()
    stream.repeats("one")
    if place in ("fold:committed", "fold:noted", "fold:closing"):  # it is closed, not folded again
        assert DeltaTable(stream.tables["current"]).version() == version
    stream.judge({1: ("a2", 1), 3: ("c", 3), 4: ("d", 4)})
    stream.dies(place, "fold", "one")
    stream.sends(("u", 3, "c2", 3), ("c", 2, "b2", 2))
    stream.repeats("two")
    wanted = {1: ("a2", 1), 2: ("b2", 2), 3: ("c2", 3), 4: ("d", 4)}
    stream.judge(wanted)
    stream.repeats("one")
    stream.judge(wanted)


@pytest.mark.parametrize(
    "place",
    [p if p == QUICK else pytest.param(p, marks=pytest.mark.slow) for p in SWEPT],
)
def test_a_sweep_is_killed(harness, spark, place):
    """What has it committed is closed by the next fold; otherwise it is listed once more."""
    at = (int(time.time()) - 3600) * 1000
    stream = Folding(harness, spark)
    stream.sends(*(("r", n, "a", n) for n in range(1, 5)), snapshot="last", at=at)
    stream.run("first")
    stream.sends(*(("r", n, "b", n) for n in (1, 3)), snapshot="last", at=at + 60_000)
    stream.run("second")
    file = harness.folder / f"{stream.name}.yaml"
    status, said = ended_at(place, spark, "sweep", file, "--rows", "2", "--json")
    assert status == -signal.SIGKILL, said
    stream.sends(("c", 9, "c", 9), at=at + 90_000)
    stream.repeats("third")
    stays = {1: ("b", 1), 3: ("b", 3), 9: ("c", 9)}
    is_swept = place != "fold:freezing"
    stream.judge(stays if is_swept else stays | {n: ("a", n) for n in (2, 4)})
    with open_run(stream.stream, "again", RunRequest(by="ann"), spark) as run:
        assert find_stale_rows(run).rows == (0 if is_swept else 2)
        sweep(run, 0 if is_swept else 2)
        assert check_current(run).flaws == ()
    stream.judge(stays)
