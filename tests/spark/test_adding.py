"""The run commits Spark's data files itself: what it says of them, and when it does not."""

import json

import pytest

from tests.worlds.spark_doubles import HookedSpark
from tests.worlds.streams import folder_of, table_at, table_rows, table_version
from tideline.errors import VerificationFailed
from tideline.model.offsets import CoordinateRange
from tideline.table.delta_table import TargetTable
from tideline.table.schema import COLUMNS, TableChange
from tideline.wiring import open_ledger

SENT = 60


@pytest.fixture
def stream(harness):
    """A stream with records waiting in two partitions."""
    harness.create(partitions=2)
    harness.send(SENT)
    harness.send(SENT, partition=1)
    return harness.stream()


@pytest.mark.parametrize(
    "columns",
    [
        pytest.param(["topic_id"], marks=pytest.mark.slow),
        pytest.param([], marks=pytest.mark.slow),
        pytest.param(["topic", "partition"], marks=pytest.mark.slow),
        pytest.param(["generation"], marks=pytest.mark.slow),
    ],
)
def test_the_files_statistics_are_those_that_spark_would_count(harness, spark, columns):
    """Whatever the table is partitioned by: Delta's own count of the same rows is the same."""
    name = harness.create(partitions=2)
    harness.send(SENT)
    harness.send(SENT, partition=1)
    stream = harness.stream(table={"uri": f"{harness.lake}/t", "partition_by": columns})
    harness.run(stream, "one", spark)
    copy = f"{harness.lake}/copy"
    table_at(copy).create("copy", "l", columns)
    rows = spark.session.read.format("delta").load(stream.table.uri)
    for partition in (0, 1):  # a task of the run read one partition
        one = rows.where(f"partition = {partition}").coalesce(1)
        one.write.format("delta").mode("append").save(copy)
    for ours, delta in zip(statistics(stream.table.uri), statistics(copy), strict=True):
        assert ours == delta
    assert len(table_rows(stream)) == 2 * SENT
    assert {topic for topic, *_ in table_rows(stream)} == {name}


def statistics(uri):
    """Per file: rows, and bounds and nulls of the columns that carry them."""
    found = []
    for commit in sorted((folder_of(uri) / "_delta_log").glob("*.json")):
        for line in commit.read_text().splitlines():
            add = json.loads(line).get("add")
            if add:
                kept = json.loads(add["stats"])
                kept.pop("tightBounds", None)
                for part in ("minValues", "maxValues"):
                    kept[part]["timestamp"] = kept[part]["timestamp"][:23]  # to the millisecond
                    kept[part] = {k: str(v)[:32] for k, v in kept[part].items()}
                found.append((sorted(add["partitionValues"].items()), kept))
    return sorted(found, key=str)


def test_a_column_of_others_is_kept(stream, harness, spark):
    """Also in a file that is written again without some of its rows; new rows have no value."""
    harness.run(stream, "one", spark)
    harness.send(10)
    harness.run(stream, "two", spark)
    uri = stream.table.uri
    spark.session.sql(f"ALTER TABLE delta.`{uri}` ADD COLUMNS (note STRING)")
    assert table_at(uri).observe().partition_by == ("topic_id",)
    spark.session.sql(f"UPDATE delta.`{uri}` SET note = concat('n', offset)")
    spark.session.sql(f"OPTIMIZE delta.`{uri}`")
    table, version = table_at(uri), table_version(stream)
    state = open_ledger(stream).read()
    (first, *_) = [r for r in state.head.positions if r.partition == 0]
    gone = CoordinateRange(first.topic, first.topic_id, 0, 0, 0, SENT)
    table.commit(TableChange(state.control.ledger_id, "p", "r", 10**6, (gone,)), (), version)
    left = table_rows(stream, "partition", "offset", "note")
    assert left == [(0, n, f"n{n}") for n in range(SENT, SENT + 10)] + sorted(
        ((1, n, f"n{n}") for n in range(SENT)), key=repr
    )
    seen = spark.session.read.format("delta").load(uri).where("note is not null")
    assert seen.count() == SENT + 10


def test_a_file_that_is_lost_before_the_commit_is_missed(harness, stream, spark):
    """The manifest names it, and Spark counted its rows."""

    def lose():
        next(folder_of(stream.table.uri).glob("landed-*/**/*.parquet")).unlink()

    with pytest.raises(VerificationFailed, match=r"data file .* is missing"):
        harness.run(stream, "one", HookedSpark(spark, after=lose))
    assert table_rows(stream) == []
    before, version = spark.submits, table_version(stream)
    assert harness.run(stream, "one", spark).status == "done"
    assert (spark.submits - before, table_version(stream) - version) == (1, 1)
    assert len(table_rows(stream)) == 2 * SENT


def test_spark_sees_the_columns_that_the_run_created(spark, tmp_path):
    """delta-rs creates the table, Spark writes it: one list of columns for both."""
    table = TargetTable(str(tmp_path / "t"))
    table.create("s", "l", ["topic_id"])
    seen = spark.session.read.format("delta").load(table.uri).schema
    named = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
    assert seen == spark.session.createDataFrame([], named).schema
