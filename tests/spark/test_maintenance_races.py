"""Compactions in the same moment: ours, Spark's OPTIMIZE and delta-rs', beside replays and rewinds.

One of the two is held between its read of the table and its commit, while the other one commits.
"""

import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark import InheritableThread

from devstack.process import wait_until
from tests.worlds.build import planned
from tests.worlds.lake import Lake
from tideline.errors import AttemptFenced, AuditNotClean, CommitConflict
from tideline.landing import table_commit as commit_loop
from tideline.landing.attempts import begin_attempt
from tideline.landing.table_commit import remove
from tideline.operations.maintaining import maintain_stream
from tideline.operations.questions import require_clean
from tideline.table.schema import removal_id
from tideline.wiring import open_tables

pytestmark = pytest.mark.slow


@pytest.fixture
def lake(tmp_path):
    """Four small files with 400 rows."""
    return Lake(tmp_path).build()


def maintain(lake):
    (done,) = maintain_stream(lake.run, open_tables(lake.stream))
    return done


def removes(lake):
    """As a rewind does: the rows of offsets 50 to 149 of partition 0 go."""
    run = lake.run
    with run.ledger.lease("writer"):
        attempt = begin_attempt(run, lake.ledger.read().control.ledger_id)
        remove(run, attempt.change(removal_id("m"), [planned(50, 150)]), after_version=0)


def places(lake):
    found = DeltaTable(lake.uri).to_pyarrow_table(columns=["partition", "offset"]).to_pydict()
    return sorted(zip(*found.values(), strict=True))


EVERY = [(p, o) for p in (0, 1) for o in range(200)]
LEFT = [(p, o) for p, o in EVERY if p == 1 or not 50 <= o < 150]


def optimize(spark, lake):
    """Spark's own compaction; a reader of the table as Spark sees it."""
    spark.session.sql(f"OPTIMIZE delta.`{lake.uri}`")


def compact(_spark, lake):
    """delta-rs' own."""
    DeltaTable(lake.uri).optimize.compact()


def seen_by_spark(spark, lake):
    found = spark.session.sql(f"SELECT partition, offset FROM delta.`{lake.uri}`").collect()
    return sorted((row.partition, row.offset) for row in found)


def is_whole(spark, lake, expected=EVERY):
    """Every row once, for delta-rs and for Spark; the audit says the same."""
    assert places(lake) == seen_by_spark(spark, lake) == expected
    if expected is EVERY:
        assert require_clean(lake.run).rows == len(expected)


@pytest.fixture
def at(monkeypatch):
    """`at(place, act)`: something happens once when this process comes to a place."""

    def hold(module, place, act):
        todo = [act]

        def reach(reached):
            if reached == place and todo:
                todo.pop()()

        monkeypatch.setattr(module, "reach", reach)

    return hold


@contextmanager
def held_optimize(spark, lake, gate):
    """An OPTIMIZE that has read the table, and whose tasks wait for the end of the block.

    Both of Spark's slots are taken by tasks that wait for a file. What the OPTIMIZE came to is in
    the list: None, or its error.
    """
    session, path = spark.session, str(gate)
    context, outcome = session.sparkContext, []
    context.pythonExec = sys.executable
    session.sql(f"SELECT count(*) FROM delta.`{lake.uri}`").collect()  # nothing to be loaded later

    def waits(_):
        import os
        import time

        while not os.path.exists(path):
            time.sleep(0.02)

    def occupy():
        context.parallelize(range(2), 2).foreach(waits)

    def race():
        context.setJobGroup(path, "an OPTIMIZE that waits")
        try:
            optimize(spark, lake)
        except Exception as error:
            outcome.append(error)
        else:
            outcome.append(None)

    tracker = context.statusTracker()
    threads = [InheritableThread(target=occupy), InheritableThread(target=race)]
    try:
        threads[0].start()
        wait_until(lambda: running(tracker) == 2, "Spark's slots are free", 60)
        threads[1].start()
        wait_until(lambda: tracker.getJobIdsForGroup(path) or outcome, "OPTIMIZE began nothing", 60)
        assert not outcome
        yield outcome
    finally:
        gate.touch()
        for thread in threads:
            thread.join(120)


def running(tracker):
    stages = (tracker.getStageInfo(n) for n in tracker.getActiveStageIds())
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


@pytest.mark.parametrize("theirs", [optimize, compact])
def test_ours_is_held_while_another_commits(spark, lake, at, theirs):
    """Refused: its files are no longer part of the table; nothing of it stays."""
    from tideline.operations import maintaining

    at(maintaining, "maintain:merged", lambda: theirs(spark, lake))
    with pytest.raises((AttemptFenced, CommitConflict)):
        maintain(lake)
    is_whole(spark, lake)
    named = {Path(path).parts[-4] for path in DeltaTable(lake.uri).file_uris()}
    assert not [name for name in named if "maintenance" in name]
    maintain(lake)
    is_whole(spark, lake)


def test_ours_is_held_right_before_its_commit(spark, lake, at):
    """Behind its last look at the table."""
    at(commit_loop, "table:committing", lambda: optimize(spark, lake))
    with pytest.raises((AttemptFenced, CommitConflict)):
        maintain(lake)
    is_whole(spark, lake)


def test_a_removal_is_held_while_spark_optimizes(spark, lake, at):
    """It looks again, and takes its rows out of the new files."""
    at(commit_loop, "table:committing", lambda: optimize(spark, lake))
    removes(lake)
    is_whole(spark, lake, LEFT)


@pytest.mark.parametrize(
    ("ours", "expected"),
    [(maintain, EVERY), (removes, LEFT), (lambda lake: compact(None, lake), EVERY)],
    ids=["maintain", "removes", "delta-rs"],
)
def test_spark_is_held_while_another_commits(spark, lake, tmp_path, ours, expected):
    """Delta refuses what Spark has read before; no row comes back, and none stands twice."""
    with held_optimize(spark, lake, tmp_path / "gate") as outcome:
        ours(lake)
        before = DeltaTable(lake.uri).version()
    (error,) = outcome
    assert error is not None
    assert "Concurrent" in str(error)
    assert DeltaTable(lake.uri).version() == before
    is_whole(spark, lake, expected)


def test_all_three_at_once(spark, lake, at, tmp_path):
    """Ours holds its merge, Spark its read; delta-rs commits first, and both others are refused."""
    from tideline.operations import maintaining

    with held_optimize(spark, lake, tmp_path / "gate") as outcome:
        at(maintaining, "maintain:merged", lambda: compact(spark, lake))
        with pytest.raises((AttemptFenced, CommitConflict)):
            maintain(lake)
    assert "Concurrent" in str(outcome[0])
    is_whole(spark, lake)


@pytest.mark.parametrize("first", [optimize, lambda _, lake: maintain(lake)], ids=["Spark", "ours"])
def test_delta_rs_that_has_read_before_another_commits(spark, lake, first):
    """delta-rs' own compaction commits all the same, and doubles every row: an audit says so."""
    table = DeltaTable(lake.uri)
    first(spark, lake)
    table.optimize.compact()
    assert places(lake) == sorted(2 * EVERY)
    with pytest.raises(
        AuditNotClean, match=r"duplicates: orders-0 \[0, 200\), orders-1 \[0, 200\)"
    ):
        require_clean(lake.run)
