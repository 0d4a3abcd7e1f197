"""Rows at thousands of coordinates: left out, kept or doubted exactly, by a small plan."""

import hashlib

import pytest
from pyspark.sql import functions as F

from tideline.model.erasures import raw_key_hash, record_hash
from tideline.model.offsets import CoordinateRange
from tideline.model.places import Places
from tideline.model.spark_job import SparkJob
from tideline.spark.coordinates import marked, within
from tideline.spark.raw_rows import erased_keys, write_files

TOPIC = "11111111-1111-4111-8111-111111111111"
OTHER = "22222222-2222-4222-8222-222222222222"
RUNS = 20_000
PLAN = 100_000
"""Characters; a term for each of the runs would take more than a million."""


def runs(count, topic_id=TOPIC, generation=0, partition=0, every=5, long=3):
    return tuple(
        CoordinateRange("t", topic_id, generation, partition, n * every, n * every + long)
        for n in range(count)
    )


@pytest.fixture
def rows(spark):
    """Two topics, two generations, two partitions, each with as many offsets as have runs."""
    several = spark.session.range(RUNS * 5).select(F.col("id").alias("offset"))
    for name, values in (
        ("topic_id", (TOPIC, OTHER)),
        ("generation", (0, 1)),
        ("partition", (0, 1)),
    ):
        several = several.withColumn(name, F.explode(F.array(*map(F.lit, values))))
    return several


@pytest.mark.parametrize(
    "ranges",
    [
        (),
        runs(3),
        pytest.param(runs(RUNS), marks=pytest.mark.slow),
        (*runs(30, long=1), *runs(30, OTHER, 1, 1)),
        pytest.param(
            (
                *runs(25),
                CoordinateRange("t", TOPIC, 0, 0, 1_000, 90_000),
                *runs(25, every=4000, long=3),
            ),
            marks=pytest.mark.slow,
        ),
    ],
    ids=["none", "few", "20,000 runs of three", "of two logs", "a long one among short ones"],
)
def test_rows_are_marked_and_kept_exactly(rows, ranges):
    """Of any number of ranges, overlapping ones too: each row once, marked or not, and no other."""
    wanted = {
        (log.topic_id, log.generation, log.partition): sum(len(r) for r in found)
        for log, found in Places.of(ranges).items()
    }
    by = ("topic_id", "generation", "partition")
    found = rows.transform(marked("is_at", ranges))
    assert found.count() == RUNS * 5 * 8
    for chosen in (found.where("is_at"), rows.transform(within(ranges))):
        counts = (
            chosen.groupBy(*by).agg(F.count_distinct("offset").alias("n"), F.count("*")).collect()
        )
        assert {tuple(r[:3]): r["n"] for r in counts} == wanted
        assert all(r[3] == r["n"] for r in counts)
        plan = chosen._jdf.queryExecution().toString()
        assert len(plan) < PLAN


def test_a_run_leaves_out_what_was_erased_and_reports_what_is_refused(rows, tmp_path):
    """20,000 runs of erased records, and as many doubted ones, of which some have an erased key."""
    job = SparkJob(
        *("s", "r", "p", str(tmp_path / "t"), "landed-p-1", ("topic_id",), "read_committed"),
        (CoordinateRange("t", TOPIC, 0, 0, 0, RUNS * 5),),
        {},
        erased=runs(RUNS),
        doubted=runs(RUNS, generation=1),
        hashes=(hashlib.sha256(b"\x01key 7").hexdigest(),),
        secret="01",
    )
    given = rows.where(f"topic_id = '{TOPIC}' AND partition = 0").select(
        F.concat(F.lit("key "), F.col("offset") % 10).cast("binary").alias("key"),
        F.lit(None).cast("binary").alias("value"),
        F.lit("t").alias("topic"),
        *("topic_id", "generation", "partition", "offset"),
    )
    result = write_files(given, job)
    refused = RUNS * 5 // 10
    assert result.rows == RUNS * 2 + RUNS * 5 - refused
    assert sum(len(r.offsets) for r in result.refused) == refused
    written = rows.sparkSession.read.parquet(str(tmp_path / "t" / "landed-p-1"))
    assert written.count() == result.rows
    assert not [n for n in written.columns if n.startswith("_tideline")]
    assert written.where("generation = 0 AND offset % 5 < 3").count() == 0
    assert written.where("generation = 1 AND offset % 10 = 7").count() == 0


def told_by(spark, tmp_path, **hashes):
    """Numbers of the records that hashes leave out of a doubted range."""
    job = SparkJob(
        *("s", "r", "p", str(tmp_path / "t"), "landed-p-1", ("topic_id",), "read_committed"),
        (CoordinateRange("t", TOPIC, 1, 0, 0, 100),),
        {},
        doubted=(CoordinateRange("t", TOPIC, 1, 0, 0, len(RECORDS)),),
        secret="01",
        **hashes,
    )
    rows = [("t", TOPIC, 1, 0, n, *record) for n, record in enumerate(RECORDS)]
    rows += [("t", TOPIC, 1, 0, 50 + n, *record) for n, record in enumerate(RECORDS)]
    names = "topic string, topic_id string, generation int, partition int, offset long"
    given = spark.session.createDataFrame(rows, f"{names}, key binary, value binary")
    return [n for r in write_files(given, job).refused for n in range(*r.coordinates[3:])]


RECORDS = [(b"k", b"v"), (None, b"k"), (b"k", None), (b"k", b""), (None, None), (b"", b"k")]
"""Keys and values of which some are the same bytes."""


@pytest.mark.parametrize(
    ("told", "left_out"),
    [
        ((raw_key_hash("01", b"k"),), [0, 2, 3]),
        ((record_hash("01", None, b"k"),), [1]),
        ((record_hash("01", b"k", b""), record_hash("01", None, None)), [3, 4]),
        ((hashlib.sha256(b"\x01k").hexdigest(),), [0, 1, 2, 3]),  # of an earlier version
    ],
    ids=["a key", "a record without one", "whole records", "without a name"],
)
def test_what_a_hash_is_of_its_name_tells(spark, tmp_path, told, left_out):
    """A value is no key, whatever its bytes; and where nothing is doubted, no hash tells."""
    assert told_by(spark, tmp_path, hashes=told) == left_out


def test_later_records_are_told_by_their_keys_wherever_they_are(spark, tmp_path):
    told = (raw_key_hash("01", b"k"),)
    assert told_by(spark, tmp_path, future=told) == [0, 2, 3, 50, 52, 53]


def test_neither_the_secret_nor_a_hash_is_in_sparks_plan(spark, tmp_path):
    """Its page and its event log show plans, with every literal, to whoever may read them."""
    secret = "5ec4e7" * 10 + "abcd"
    told = (raw_key_hash(secret, b"k"), record_hash(secret, None, b"k"), "0" * 63 + "7")
    job = SparkJob(
        *("s", "r", "p", str(tmp_path / "t"), "landed-p-1", ("topic_id",), "read_committed"),
        (CoordinateRange("t", TOPIC, 1, 0, 0, 100),),
        {},
        doubted=(CoordinateRange("t", TOPIC, 1, 0, 0, 100),),
        hashes=told[1:],
        future=told[:1],
        secret=secret,
    )
    names = "topic string, topic_id string, generation int, partition int, offset long"
    rows = [("t", TOPIC, 1, 0, n, *record) for n, record in enumerate(RECORDS)]
    given = spark.session.createDataFrame(rows, f"{names}, key binary, value binary")
    made = given.transform(marked("_tideline_doubted", job.doubted)).transform(erased_keys(job))
    assert sum(row["_tideline_by_key"] for row in made.collect()) == 4
    query = made._jdf.queryExecution()
    shown = f"{query} {query.executedPlan().treeString()} {query.optimizedPlan().toJSON()}".lower()
    assert "sha2" in shown
    for hidden in (secret, *(found.rpartition(":")[2] for found in told)):
        assert hidden not in shown
    write_files(given, job)
