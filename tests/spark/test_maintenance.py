"""Runs, replays, rewinds and audits on tables whose files were merged and deleted."""

import pytest
from deltalake import DeltaTable

from tests.worlds.spark_doubles import HookedSpark
from tests.worlds.streams import head, is_clean, table_rows
from tideline.landing import table_commit as commit_loop
from tideline.model.request import RunRequest
from tideline.operations.maintaining import maintain_stream
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.table.schema import COLUMNS
from tideline.wiring import open_run, open_tables

CONTENT = tuple(name for name in COLUMNS if name != "plan_id")


def maintain(stream, spark):
    """As `tideline maintain` does; afterwards only the newest version can still be read."""
    tables = open_tables(stream)
    with open_run(stream, "maintain", RunRequest(), spark) as run:
        (done,) = maintain_stream(run, tables)
    tables["raw"].vacuum(0, delete=True)
    return done


def lands(harness, stream, spark, *run_ids):
    for run_id in run_ids:
        for partition in (0, 1):
            harness.send(20, partition=partition, value=run_id.encode())
        harness.run(stream, run_id, spark)


@pytest.fixture
def stream(harness, spark):
    """Three runs of 40 rows."""
    harness.create(partitions=2)
    stream = harness.stream()
    lands(harness, stream, spark, "one", "two", "three")
    return stream


def test_whatever_runs_do_they_do_on_merged_files(harness, stream, spark):
    """Landing, replay, rewind and forward again, with nothing left of older versions."""
    before = table_rows(stream, *CONTENT)
    done = maintain(stream, spark)
    assert done.after.active.files < done.before.active.files
    assert (table_rows(stream, *CONTENT), is_clean(harness, stream)) == (before, True)
    assert harness.run(stream, "idle", spark).status == "nothing_to_do"

    lands(harness, stream, spark, "four")
    harness.run(stream, "two", spark)  # a replay takes its rows out of a merged file
    before, positions = table_rows(stream, *CONTENT), head(stream)
    assert (len(before), is_clean(harness, stream)) == (160, True)
    maintain(stream, spark)
    with open_run(stream, "rewind", RunRequest(), spark) as run:
        undone = rewind_stream(run, RewindRequest("one", "wrong filter", "ann"))
    assert (undone.rows, is_clean(harness, stream)) == (120, True)
    maintain(stream, spark)
    assert harness.run(stream, "again", spark).status == "done"
    assert (table_rows(stream, *CONTENT), head(stream)) == (before, positions)
    assert is_clean(harness, stream)


def test_spark_reads_merged_files_and_others_optimize_them(harness, stream, spark):
    """Whoever compacts, in whatever order, the rows are the same."""
    before = table_rows(stream, *CONTENT)
    delta = f"delta.`{stream.table.uri}`"
    maintain(stream, spark)
    assert spark.session.sql(f"SELECT * FROM {delta}").count() == len(before)
    lands(harness, stream, spark, "four")
    spark.session.sql(f"OPTIMIZE {delta}")
    lands(harness, stream, spark, "five")
    maintain(stream, spark)
    found = spark.session.sql(f"SELECT count(DISTINCT partition, offset), count(*) FROM {delta}")
    assert tuple(found.collect()[0]) == (200, 200)
    assert [r for r in table_rows(stream, *CONTENT) if r in before] == before
    assert is_clean(harness, stream)


@pytest.mark.parametrize(
    "place", [pytest.param("spark:answered", marks=pytest.mark.slow), "table:committing"]
)
def test_others_optimize_while_a_run_is_about_to_commit(harness, stream, spark, monkeypatch, place):
    """A landing adds its rows to the new files, a replay takes its own out of them."""
    before = table_rows(stream, *CONTENT)
    todo = []

    def optimize(reached):
        if reached == place and todo:
            spark.session.sql(f"OPTIMIZE delta.`{stream.table.uri}`")
            todo.pop()

    monkeypatch.setattr(commit_loop, "reach", optimize)
    hooked = HookedSpark(spark, after=lambda: optimize("spark:answered"))
    harness.send(20, value=b"four")
    for run_id in ("four", "two", "three"):
        todo.append(run_id)
        versions = DeltaTable(stream.table.uri).version()
        assert harness.run(stream, run_id, hooked).status == "done"
        assert not todo
        assert DeltaTable(stream.table.uri).version() > versions + 1
    found = table_rows(stream, *CONTENT)
    assert (len(found), [r for r in found if r in before]) == (140, before)
    assert is_clean(harness, stream)
