"""What one live batch asks of the ledger, and how much code it passes, counted at run time."""

import sys
from collections import Counter

import pytest

from tests.worlds.streams import STEPS
from tideline.model.request import RunRequest
from tideline.pipeline import run_batch as row
from tideline.wiring import open_run


class Counted:
    """Reads and commits of a ledger's store by step, and the modules whose functions ran."""

    def __init__(self, monkeypatch):
        self.step, self.reads, self.commits, self.modules = "lane", Counter(), Counter(), set()
        for name in STEPS:
            monkeypatch.setattr(row, name, self._in_step(name, getattr(row, name)))

    def _in_step(self, name, step):
        def counted(run):
            self.step = name
            try:
                return step(run)
            finally:
                self.step = "lane"

        return counted

    def watch(self, store):
        read, commit = store.read, store.commit

        def counted_read():
            self.reads[self.step] += 1
            return read()

        def counted_commit(*given, **changes):
            self.commits[self.step] += 1
            return commit(*given, **changes)

        store.read, store.commit = counted_read, counted_commit

    def profile(self, frame, event, _):
        name = frame.f_globals.get("__name__") or ""
        if event == "call" and name.startswith("tideline.") and frame.f_code.co_flags & 1:
            self.modules.add(name)


class WithoutProfile:
    """Spark runs in a process of its own: what it passes is not the run's."""

    def __init__(self, spark):
        self._spark = spark

    def submit(self, job_path):
        profile = sys.getprofile()
        sys.setprofile(None)
        try:
            self._spark.submit(job_path)
        finally:
            sys.setprofile(profile)


@pytest.fixture
def batch(harness, spark, monkeypatch):
    """Run one batch of a stream that has a table, and count."""
    harness.create(partitions=3)
    harness.send(10)
    stream = harness.stream()
    harness.run(stream, "creates the table", spark)
    monkeypatch.setenv("TIDELINE_LEASE_SECONDS", "3600")  # no renewal in between

    def run_one(run_id):
        counted = Counted(monkeypatch)
        with open_run(stream, run_id, RunRequest(), WithoutProfile(spark)) as run:
            counted.watch(run.ledger.store)
            sys.setprofile(counted.profile)
            try:
                counted.status = row.run_batch(run).status
            finally:
                sys.setprofile(None)
        return counted

    return run_one


def test_a_landing_batch_reads_the_ledger_once_a_step_and_commits_once(harness, batch):
    """A step reads a snapshot, a commit begins with what is known; ingesting takes a lease as well.

    It asks for the lease once more right before the table's commit (R5). Nothing is to be resolved:
    what reads that is the lane, and the step is left out.
    """
    harness.send(10)
    counted = batch("lands")
    assert counted.status == "done"
    assert {step: counted.reads[step] for step in STEPS} == dict(
        zip(STEPS, (1, 1, 0, 2, 1, 1), strict=True)
    )
    assert {step: counted.commits[step] for step in STEPS} == dict(
        zip(STEPS, (1, 1, 0, 3, 1, 1), strict=True)
    )
    assert (counted.reads["lane"], counted.commits["lane"]) == (2, 2)
    of_pipeline = {name for name in counted.modules if name.startswith("tideline.pipeline.")}
    assert len(of_pipeline) <= 20
    assert len(counted.modules) <= 84


def test_an_idle_batch_reads_the_ledger_three_times_and_commits_four(batch):
    """Most runs of most streams have nothing new."""
    counted = batch("idle")
    assert counted.status == "nothing_to_do"
    assert (counted.reads.total(), counted.commits.total()) == (3, 4)
    assert len(counted.modules) <= 59
