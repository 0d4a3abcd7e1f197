"""The table is created once, with our marks, and only on empty ground."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from deltalake import DeltaTable

from tests.worlds.streams import folder_of, table_at, table_rows
from tideline.errors import BadInput
from tideline.table.delta_table import TargetTable
from tideline.table.schema import COLUMNS


@pytest.mark.connect_too
def test_a_table_s_creation_that_was_cut_off_is_begun_again(harness, spark):
    """Spark takes what a creation left for a table, and would write one without our marks."""
    harness.create(partitions=1)
    harness.send(10)
    stream = harness.stream()
    log = folder_of(stream.table.uri) / "_delta_log"
    (log / "_staged_commits").mkdir(parents=True)
    (log / ".00000000000000000000.json.a.tmp").touch()
    (log / "_commit_a.json.tmp").touch()
    harness.run(stream, "one", spark)
    assert len(table_rows(stream)) == 10
    assert table_at(stream.table.uri).observe().stream == stream.stream
    assert harness.audit(stream)[0].clean


def test_a_folder_with_other_things_is_no_table_s_place(harness, spark):
    """Refused before anything is written into it."""
    harness.create(partitions=1)
    harness.send(10)
    stream = harness.stream()
    folder = folder_of(stream.table.uri)
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(
        BadInput, match=r"not empty and holds no Delta table: it contains notes\.txt"
    ):
        harness.run(stream, "one", spark)
    assert [p.name for p in folder.iterdir()] == ["notes.txt"]


def test_spark_sees_the_columns_that_the_run_created(spark, tmp_path):
    """delta-rs creates the table, Spark writes it: one list of columns for both."""
    table = TargetTable(str(tmp_path / "t"))
    table.create("s", "l", ["topic_id"])
    seen = spark.session.read.format("delta").load(table.uri).schema
    named = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    assert seen == spark.session.createDataFrame([], named).schema


def test_of_two_creations_at_once_one_stands(tmp_path):
    """A zombie and its successor, or two streams that mean the same folder."""
    for number in range(100):
        uri = str(tmp_path / str(number))
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(TargetTable(uri).create, name, name, []) for name in "ab"]
            assert [one.result() for one in both] == [None, None]
        seen = TargetTable(uri).observe()
        assert DeltaTable(uri).version() == 0
        assert seen.stream == seen.ledger_id
