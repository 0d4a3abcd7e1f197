"""Runs on a real broker and real Spark: what lands, and where the next run goes on."""

from datetime import UTC, datetime, timedelta

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from tests.real import head, spans, table_rows, table_version
from tideline.model.coverage import overlaps, total
from tideline.model.offsets import OffsetRange
from tideline.model.request import RunRequest
from tideline.table.schema import read_commit_metadata
from tideline.wiring import open_ledger, open_run


def clean(world, stream):
    found, findings = world.audit(stream)
    return found.clean and not findings


def test_capped_runs_tile_the_log(world, spark):
    """100,000 records, 30,000 a run: four plans that meet exactly, the fifth finds nothing."""
    world.create(partitions=3)
    for partition, count in enumerate((50_000, 30_000, 20_000)):
        world.send(count, partition=partition)
    stream = world.stream(limits={"max_records_per_run": 30_000})
    records = [world.run(stream, f"run-{n}", spark) for n in range(5)]
    assert [r.status for r in records] == ["done"] * 4 + ["nothing_to_do"]
    assert [r.plan.offset_lag for r in records] == [70_000, 40_000, 10_000, 0, 0]
    assert [sum(v.rows for v in r.verified) for r in records] == [30_000] * 3 + [10_000, 0]
    for partition, count in enumerate((50_000, 30_000, 20_000)):
        ranges = [OffsetRange(s, e) for r in records for p, s, e in spans(r) if p == partition]
        assert not overlaps(ranges)
        assert total(ranges) == count
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 100_000
    assert clean(world, stream)


def test_a_lone_last_record_is_read_once(world, spark):
    """Neither read again by the next run nor left behind (story 1)."""
    world.create(partitions=1)
    stream = world.stream()
    world.send(10)
    world.run(stream, "first", spark)
    world.send(1)
    assert spans(world.run(stream, "second", spark)) == [(0, 10, 11)]
    assert world.run(stream, "third", spark).status == "nothing_to_do"
    assert len(table_rows(stream)) == 11


def test_the_same_run_id_replays_its_plan(world, spark):
    """Same ranges although more is there, same rows, one copy, the head where it was."""
    world.create(partitions=2)
    world.send(100)
    stream = world.stream()
    first = world.run(stream, "again", spark)
    world.send(50, partition=1)
    before = head(stream)
    second = world.run(stream, "again", spark)
    assert second.plan == first.plan
    assert [v.rows for v in second.verified] == [v.rows for v in first.verified]
    assert second.landing.version > first.landing.version
    assert head(stream) == before
    assert len(table_rows(stream)) == 100
    assert clean(world, stream)


def test_idle_runs_start_no_spark_and_leave_the_table_alone(world, spark):
    """A schedule of every few minutes must cost next to nothing."""
    world.create(partitions=2)
    world.send(10)
    stream = world.stream()
    world.run(stream, "lands", spark)
    submits, version = spark.submits, table_version(stream)
    for number in range(10):
        assert world.run(stream, f"idle-{number}", spark).status == "nothing_to_do"
    assert (spark.submits, table_version(stream)) == (submits, version)


def test_everything_about_a_record_is_kept(world, spark):
    """Key, value, headers, timestamp and its type; a tombstone is a row."""
    name = world.create(partitions=1, **{"retention.ms": "-1"})  # the stamp below is an old one
    stamp = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    producer = KafkaProducer(bootstrap_servers=world.broker.bootstrap_servers)
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
    stream = world.stream()
    record = world.run(stream, "run", spark)
    columns = ("offset", "key", "value", "headers", "timestamp", "timestamp_type", "plan_id")
    first, second, third = table_rows(stream, *columns)
    headers = [{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}]
    assert first == (0, b"key", b"value", headers, stamp, 0, record.plan.plan_id)
    assert second[1:3] == (b"gone", None)
    assert third[1:3] == (None, b"")
    (identity,) = set(table_rows(stream, "topic_id", "generation"))
    assert identity == (world.topic_id(), 0)


def test_two_topics_and_a_pattern_that_begins_to_match_a_third(world, spark):
    """All land, the new one from its beginning, whatever `start` says."""
    for suffix in ("a", "b"):
        world.create(suffix, partitions=1)
        world.send(10, suffix)
    stream = world.stream(
        kafka={"topic_pattern": f"{world.name}-[abc]"}, start="earliest", name="many"
    )
    world.run(stream, "first", spark)
    world.create("c", partitions=2)
    world.send(7, "c", partition=1)
    world.send(3, "a")
    world.run(stream, "second", spark)
    counts = {world.topic(t): 0 for t in "abc"}
    for topic, _, _ in table_rows(stream):
        counts[topic] += 1
    assert list(counts.values()) == [13, 10, 7]
    assert head(stream)[(world.topic("c"), 1)] == 7
    assert clean(world, stream)


def test_added_partitions_are_read_from_zero(world, spark):
    """Also when `start` was latest."""
    name = world.create(partitions=1)
    world.send(5)
    stream = world.stream(start="latest")
    assert world.run(stream, "first", spark).status == "nothing_to_do"
    with world.admin() as admin:
        admin.create_partitions({name: 2})
    world.send(4, partition=1)
    assert spans(world.run(stream, "second", spark)) == [(1, 0, 4)]


def test_aborted_records_stay_out_and_nobody_waits_for_them(world, spark):
    """read_committed with gaps: transactional; a trailing marker ends the range."""
    name = world.create(partitions=1)
    world.transactions(
        (b"kept", 10, True), (b"aborted", 10, False), (b"kept", 10, True), (b"no", 10, False)
    )
    stream = world.stream(gaps="transactional")
    began = datetime.now(UTC)
    record = world.run(stream, "run", spark)
    assert datetime.now(UTC) - began < timedelta(seconds=50)
    assert {value for (value,) in table_rows(stream, "value")} == {b"kept"}
    (verified,) = record.verified
    assert (verified.rows, total(g.offsets for g in verified.gaps)) == (20, 24)
    assert head(stream) == {(name, 0): 44}
    assert clean(world, stream)


def test_a_range_of_nothing_but_markers_is_a_valid_empty_read(world, spark):
    """The head moves past it; the commit is there to prove it."""
    name = world.create(partitions=1)
    world.transactions((b"no", 1, False))
    stream = world.stream(gaps="transactional")
    record = world.run(stream, "run", spark)
    assert (record.status, record.verified[0].rows) == ("done", 0)
    assert head(stream) == {(name, 0): 2}
    assert world.run(stream, "next", spark).status == "nothing_to_do"


def test_a_group_s_committed_offsets_can_be_the_start(world, spark):
    """Taking over from an old consumer: next to read is next to read."""
    name = world.create(partitions=2)
    world.send(10)
    world.send(10, partition=1)
    stream = world.stream(start={"group": world.name}, kafka={"topics": [name]})
    with open_run(stream, "x", RunRequest()) as context:
        context.kafka.commit_group(world.name, {(name, 0): 4, (name, 1): 10})
    assert spans(world.run(stream, "run", spark)) == [(0, 4, 10)]


def test_explicit_offsets_and_a_timestamp_can_be_the_start(world, spark):
    """A future timestamp means the end that was taken before the look-up."""
    name = world.create(partitions=1)
    world.send(10)
    explicit = world.stream(start={"offsets": {name: {0: 6}}}, name="explicit")
    assert spans(world.run(explicit, "run", spark)) == [(0, 6, 10)]
    future = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    late = world.stream(start={"timestamp": future}, name="late")
    assert world.run(late, "run", spark).status == "nothing_to_do"
    world.send(2)
    assert spans(world.run(late, "next", spark)) == [(0, 10, 12)]


def test_a_consumer_group_is_told_the_next_offsets(world, spark):
    """For lag tools, after the advance."""
    name = world.create(partitions=1)
    world.send(10)
    stream = world.stream(kafka={"topics": [name], "commit_group": world.name})
    world.run(stream, "run", spark)
    with open_run(stream, "x", RunRequest()) as context:
        assert context.kafka.committed_offsets(world.name, [(name, 0)]) == {(name, 0): 10}


def test_the_commit_says_what_it_holds(world, spark):
    """Plan id, token and ranges are in the table's own history."""
    world.create(partitions=1)
    world.send(10)
    stream = world.stream()
    record = world.run(stream, "run", spark)
    mark = read_commit_metadata(DeltaTable(stream.table.uri).history(1)[0]["userMetadata"])
    assert mark["plan_id"] == record.plan.plan_id
    assert mark["ranges"] == [[world.topic_id(), 0, 0, 0, 10]]
    assert mark["token"] == record.landing.token
    assert mark["ledger_id"] == open_ledger(stream).read().control.ledger_id


@pytest.mark.parametrize("columns", [[], ["partition"], ["topic", "generation"]])
def test_other_partition_columns_change_nothing_but_the_layout(world, spark, columns):
    """Coordinates are found in paths, in statistics or in the files."""
    world.create(partitions=2)
    world.send(20)
    world.send(10, partition=1)
    stream = world.stream(table={"uri": str(world.folder / "lake" / "t"), "partition_by": columns})
    world.run(stream, "run", spark)
    world.run(stream, "run", spark)
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 30
    assert clean(world, stream)
