"""The run commits Spark's data files itself: what it says of them, and when it does not."""

import json
from pathlib import Path

import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from tests.worlds.spark_doubles import HookedSpark, LossySpark
from tests.worlds.streams import folder_of, head, table_at, table_rows, table_version
from tideline.documents import dump, load
from tideline.errors import AttemptFenced, ReplayUnavailable, ServiceAway, VerificationFailed
from tideline.landing import table_commit as commit_loop
from tideline.model.offsets import CoordinateRange
from tideline.model.request import RunRequest
from tideline.model.spark_job import SparkJob
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges
from tideline.table.schema import TableChange
from tideline.wiring import open_ledger, open_run

SENT = 60


@pytest.fixture
def stream(harness):
    """A stream with records waiting in two partitions."""
    harness.create(partitions=2)
    harness.send(SENT)
    harness.send(SENT, partition=1)
    return harness.stream()


def operations(stream):
    """What the table's history says, oldest first."""
    return [c["operation"] for c in reversed(DeltaTable(stream.table.uri).history())]


def at_committing(monkeypatch, act, times=1):
    """Do something between the last look at the table and the commit."""
    left = [times]

    def reach(place):
        if place == "table:committing" and left[0]:
            left[0] -= 1
            act()

    monkeypatch.setattr(commit_loop, "reach", reach)


def rewrite(stream):
    """A commit of somebody else that changes no row."""
    table = DeltaTable(stream.table.uri)
    table.alter.set_table_properties(
        {"delta.logRetentionDuration": f"interval {table.version()} days"}
    )


@pytest.mark.parametrize(
    "columns",
    [
        ["topic_id"],
        pytest.param([], marks=pytest.mark.slow),
        ["topic", "partition"],
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


def test_a_commit_of_others_in_between_is_looked_at_and_passed(stream, harness, spark, monkeypatch):
    """It changes no row at the coordinates: our files come after it."""
    at_committing(monkeypatch, lambda: rewrite(stream))
    assert harness.run(stream, "one", spark).status == "done"
    assert operations(stream) == ["CREATE TABLE", "SET TBLPROPERTIES", "WRITE"]
    assert len(table_rows(stream)) == 2 * SENT


def test_others_who_never_stop_committing_are_a_passing_fault(stream, harness, spark, monkeypatch):
    """Nothing was added; the next try finds the table at rest."""
    at_committing(monkeypatch, lambda: rewrite(stream), times=100)
    with pytest.raises(ServiceAway, match="other programs have committed first"):
        harness.run(stream, "one", spark)
    assert table_rows(stream) == []
    monkeypatch.undo()
    assert harness.run(stream, "one", spark).status == "done"
    assert len(table_rows(stream)) == 2 * SENT


def test_rows_that_somebody_put_there_in_between_get_no_second_copy(
    stream, harness, spark, monkeypatch
):
    """The transaction holds for the version that was looked at; these rows are replaced (R2)."""
    elsewhere = harness.stream(name="copy", table={"uri": f"{harness.lake}/copy"})
    harness.run(elsewhere, "one", spark)
    rows = DeltaTable(elsewhere.table.uri).to_pyarrow_table()
    at_committing(monkeypatch, lambda: write_deltalake(stream.table.uri, rows, mode="append"))
    record = harness.run(stream, "one", spark)
    assert len(table_rows(stream)) == 2 * SENT
    assert {plan for (plan,) in table_rows(stream, "plan_id")} == {record.plan.plan_id}


def test_more_rows_that_somebody_put_there_in_between_stay(stream, harness, spark, monkeypatch):
    """R4 holds for whatever stands there: what was read has to hold all of it."""
    elsewhere = harness.stream(name="copy", table={"uri": f"{harness.lake}/copy"})
    harness.run(elsewhere, "one", spark)
    rows = DeltaTable(elsewhere.table.uri).to_pyarrow_table()
    at_committing(monkeypatch, lambda: write_deltalake(stream.table.uri, rows, mode="append"))
    with pytest.raises(ReplayUnavailable, match="58 offsets were read where the table holds 60"):
        harness.run(stream, "one", LossySpark(spark, 2))
    assert len(table_rows(stream)) == 2 * SENT
    assert set(head(stream).values()) == {0}


def test_an_older_attempt_s_files_are_not_added(stream, harness, spark, monkeypatch):
    """R5: a newer attempt has committed elsewhere in the table since the last look."""
    with open_run(stream, "one", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)

        def newer():
            app_id = f"tideline:{run.ledger.read().control.ledger_id}"
            table, nothing = DeltaTable(stream.table.uri), []
            properties = CommitProperties(app_transactions=[Transaction(app_id, 1_000)])
            table.create_write_transaction(
                nothing, "append", table.schema(), ["topic_id"], commit_properties=properties
            )

        at_committing(monkeypatch, newer)
        with pytest.raises(AttemptFenced):
            ingest_ranges(run)
    assert table_rows(stream) == []
    monkeypatch.undo()
    assert harness.run(stream, "one", spark).status == "done"
    assert len(table_rows(stream)) == 2 * SENT


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
    table.commit(TableChange("l", "p", "r", 10**6, (gone,)), (), version)
    left = table_rows(stream, "partition", "offset", "note")
    assert left == [(0, n, f"n{n}") for n in range(SENT, SENT + 10)] + sorted(
        ((1, n, f"n{n}") for n in range(SENT)), key=repr
    )
    seen = spark.session.read.format("delta").load(uri).where("note is not null")
    assert seen.count() == SENT + 10


class Farther:
    """A reader that reads more than it was told to."""

    def __init__(self, spark):
        self.spark = spark

    def submit(self, job_path):
        job = load(SparkJob, Path(job_path).read_bytes(), "the job")
        text = dump(job).replace('"end_offset":50', '"end_offset":60')
        assert text != dump(job)
        Path(job_path).write_text(text)
        self.spark.submit(job_path)


def test_rows_that_were_not_planned_are_refused(stream, harness, spark):
    """Nothing of the attempt is added, and the position stays."""
    capped = harness.stream(limits={"max_records_per_run": 100})
    with pytest.raises(VerificationFailed, match=r"rows .* are not at planned"):
        harness.run(capped, "one", Farther(spark))
    assert table_rows(capped) == []
    assert harness.run(capped, "one", spark).status == "done"
    assert len(table_rows(capped)) == 100


def test_an_attempt_s_folder_is_its_own(stream, harness, spark):
    """What a failed attempt has written stays outside of the table."""

    def fail():
        raise ServiceAway("spark-submit ended with status 143")

    with pytest.raises(ServiceAway):
        harness.run(stream, "one", HookedSpark(spark, after=fail))
    left = set(folder_of(stream.table.uri).glob("landed-*"))
    record = harness.run(stream, "one", spark)
    (added,) = {u.partition(f"{stream.table.uri}/")[2].partition("/")[0] for u in files(stream)}
    attempt = TableChange("l", record.plan.plan_id, "r", record.table_commit.token, ())
    assert added == attempt.folder
    assert len(left) == 1
    assert folder_of(stream.table.uri) / added not in left
    assert len(table_rows(stream)) == 2 * SENT


def files(stream):
    return DeltaTable(stream.table.uri).file_uris()


@pytest.mark.parametrize("gaps", ["explain", "transactional", "compacted"])
def test_a_file_that_is_lost_before_the_commit_is_missed(harness, stream, spark, gaps):
    """Whatever gaps the stream admits: the manifest names it, and Spark counted its rows."""
    lenient = harness.stream(gaps=gaps)

    def lose():
        next(folder_of(stream.table.uri).glob("landed-*/**/*.parquet")).unlink()

    with pytest.raises(VerificationFailed, match=r"data file .* is missing"):
        harness.run(lenient, "one", HookedSpark(spark, after=lose))
    assert table_rows(lenient) == []
    assert harness.run(lenient, "one", spark).status == "done"
    assert len(table_rows(lenient)) == 2 * SENT


def test_it_is_one_commit_and_no_second_read(stream, harness, spark):
    """Counted: a start of Spark and a version of the table."""
    before = spark.submits
    harness.run(stream, "one", spark)
    assert (spark.submits - before, table_version(stream)) == (1, 1)
