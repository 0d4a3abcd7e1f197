"""Runs on a real broker and real Spark: what lands, and where the next run goes on."""

from datetime import UTC, datetime

from deltalake import DeltaTable
from kafka import KafkaProducer
from pyspark.sql import Observation

from tests.worlds.streams import head, is_clean, spans, table_rows
from tideline.model.offsets import OffsetRange, overlaps, total
from tideline.table.schema import read_commit_metadata
from tideline.wiring import open_ledger


def test_capped_runs_tile_the_log(harness, spark):
    """100,000 records, 30,000 a run: four plans that meet exactly, the fifth finds nothing."""
    harness.create(partitions=3)
    for partition, count in enumerate((50_000, 30_000, 20_000)):
        harness.send(count, partition=partition)
    stream = harness.stream(limits={"max_records_per_run": 30_000})
    records = [harness.run(stream, f"run-{n}", spark) for n in range(5)]
    assert [r.status for r in records] == ["done"] * 4 + ["nothing_to_do"]
    assert [r.plan.offset_lag for r in records] == [70_000, 40_000, 10_000, 0, 0]
    assert [sum(v.rows for v in r.verified) for r in records] == [30_000] * 3 + [10_000, 0]
    for partition, count in enumerate((50_000, 30_000, 20_000)):
        ranges = [OffsetRange(s, e) for r in records for p, s, e in spans(r) if p == partition]
        assert not overlaps(ranges)
        assert total(ranges) == count
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 100_000
    assert is_clean(harness, stream)


class Forgotten(Observation):
    """An observation that Spark Connect's server has not waited for."""

    get = property(lambda _: {})


def test_rows_are_counted_again_where_spark_has_lost_the_count(harness, spark, monkeypatch):
    """A slow Spark Connect server answers without it; that failed a run that had landed all."""
    monkeypatch.setattr("tideline.spark.raw_rows.Observation", Forgotten)
    harness.create(partitions=1)
    harness.send(10)
    stream = harness.stream()
    assert harness.run(stream, "first", spark).table_commit.rows == 10
    assert is_clean(harness, stream)


def test_everything_about_a_record_is_kept(harness, spark):
    """Key, value, headers, timestamp and its type; a tombstone is a row."""
    name = harness.create(partitions=1, **{"retention.ms": "-1"})  # the stamp below is an old one
    stamp = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap_servers)
    producer.send(
        name,
        b"value",
        key=b"key",
        headers=[("a", b"1"), ("a", b"2")],
        timestamp_ms=round(stamp.timestamp() * 1000),
        partition=0,
    )
    producer.send(name, None, key=b"gone", partition=0)
    producer.send(name, b"", partition=0)
    producer.flush()
    producer.close()
    stream = harness.stream()
    record = harness.run(stream, "run", spark)
    columns = ("offset", "key", "value", "headers", "timestamp", "timestamp_type", "plan_id")
    first, second, third = table_rows(stream, *columns)
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}]
    assert first == (0, b"key", b"value", headers, stamp, 0, record.plan.plan_id)
    assert second[1:3] == (b"gone", None)
    assert third[1:3] == (None, b"")
    (identity,) = set(table_rows(stream, "topic_id", "generation"))
    assert identity == (harness.topic_id(), 0)


def test_two_topics_and_a_pattern_that_begins_to_match_a_third(harness, spark):
    """All land, the new one from its beginning, whatever `start` says."""
    for suffix in ("a", "b"):
        harness.create(suffix, partitions=1)
        harness.send(10, suffix)
    stream = harness.stream(
        kafka={"topic_pattern": f"{harness.name}-[abc]"}, start="earliest", name="many"
    )
    harness.run(stream, "first", spark)
    harness.create("c", partitions=2)
    harness.send(7, "c", partition=1)
    harness.send(3, "a")
    harness.run(stream, "second", spark)
    counts = {harness.topic(t): 0 for t in "abc"}
    for topic, _, _ in table_rows(stream):
        counts[topic] += 1
    assert list(counts.values()) == [13, 10, 7]
    assert head(stream)[(harness.topic("c"), 1)] == 7
    assert is_clean(harness, stream)


def test_a_range_of_nothing_but_markers_is_a_valid_empty_read(harness, spark):
    """The head moves past it; the commit is there to prove it."""
    name = harness.create(partitions=1)
    harness.transactions((b"no", 1, False))
    stream = harness.stream(gaps="transactional")
    record = harness.run(stream, "run", spark)
    assert (record.status, record.verified[0].rows) == ("done", 0)
    assert head(stream) == {(name, 0): 2}
    assert harness.run(stream, "next", spark).status == "nothing_to_do"


def test_the_commit_says_what_it_holds(harness, spark):
    """Plan id, token and ranges are in the table's own history."""
    harness.create(partitions=1)
    harness.send(10)
    stream = harness.stream()
    record = harness.run(stream, "run", spark)
    mark = read_commit_metadata(DeltaTable(stream.table.uri).history(1)[0]["userMetadata"], "here")
    assert mark["plan_id"] == record.plan.plan_id
    assert mark["ranges"] == [[harness.topic_id(), 0, 0, 0, 10]]
    assert mark["token"] == record.table_commit.token
    assert mark["ledger_id"] == open_ledger(stream).read().control.ledger_id
