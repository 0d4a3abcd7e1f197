"""Findings on a real broker: halted, named, nothing read, nothing written, head unmoved."""

import shutil

import pytest

from devstack.broker import Broker
from tests.real import World, head, table_rows, table_version
from tideline.errors import BadInput, ReplayUnavailable, ResetDetected, ServiceAway
from tideline.model.request import RunRequest
from tideline.pipeline.advance_offsets import advance_offsets
from tideline.pipeline.detect_earliest_reset import detect_earliest_reset
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.plan_offset_ranges import plan_offset_ranges
from tideline.wiring import open_ledger, open_run


def halts(world, stream, spark, run_id="halted"):
    """Run, and check that nothing moved; the finding."""
    before = (head(stream), table_version(stream), spark.submits)
    with pytest.raises(ResetDetected) as halted:
        world.run(stream, run_id, spark)
    assert (head(stream), table_version(stream), spark.submits) == before
    (incident,) = halted.value.incidents
    assert incident in open_ledger(stream).read().control.incidents
    return incident.finding


def test_deleted_records_halt_and_are_named(world, landed, spark):
    """Retention does the same; [next offset, log start) is lost."""
    world.send(50)
    world.delete_records(before=130)
    finding = halts(world, landed, spark)
    assert finding.kind == "retention_loss"
    assert (finding.lost_start, finding.lost_end) == (100, 130)


@pytest.mark.slow
def test_a_later_run_attaches_to_the_open_incident(world, landed, spark):
    """One loss, one incident, however often the schedule comes round."""
    world.send(50)
    world.delete_records(before=130)
    for run_id in ("first", "second"):
        halts(world, landed, spark, run_id)
    (incident,) = open_ledger(landed).read().control.incidents
    assert incident.run_id == "first"


def test_a_recreated_topic_refilled_past_the_position_halts(world, landed, spark):
    """Only the id tells: nothing is read, nothing is written."""
    old = world.topic_id()
    world.delete()
    world.create(partitions=1)
    world.send(200)
    finding = halts(world, landed, spark)
    assert finding.kind == "topic_recreated"
    assert old in str(finding)
    assert world.topic_id() in str(finding)


@pytest.mark.slow
def test_a_deleted_topic_halts(world, landed, spark):
    """Gone is not empty."""
    world.delete()
    assert halts(world, landed, spark).kind == "topic_missing"


@pytest.mark.slow
def test_a_topic_that_a_pattern_no_longer_lists_is_missed(world, spark):
    """R14: known topics are asked for by name; the pattern alone would forget it."""
    world.create("a", partitions=1)
    world.create("b", partitions=1)
    world.send(5, "a")
    world.send(5, "b")
    stream = world.stream(kafka={"topic_pattern": f"{world.name}-.*"})
    world.run(stream, "lands", spark)
    world.delete("a")
    finding = halts(world, stream, spark)
    assert (finding.kind, finding.place) == ("topic_missing", world.topic("a"))


def test_a_wiped_and_refilled_log_halts(tmp_path, spark):
    """Same id, log start 0, more records than before: only the known epoch's end tells."""
    broker = Broker(tmp_path / "kafka").start()
    try:
        world = World(broker, tmp_path, "wiped")
        name = world.create(partitions=1)
        world.send(100)
        stream = world.stream()
        world.run(stream, "lands", spark)
        broker.stop()
        shutil.rmtree(broker.data / f"{name}-0")
        broker.start()
        world.send(300)
        assert halts(world, stream, spark).kind == "truncation"
    finally:
        broker.stop()


def test_a_clean_restart_is_no_finding(tmp_path, spark):
    """The epoch changes, the log does not."""
    broker = Broker(tmp_path / "kafka").start()
    try:
        world = World(broker, tmp_path, "restarted")
        world.create(partitions=1)
        world.send(100)
        stream = world.stream()
        world.run(stream, "lands", spark)
        broker.stop()
        broker.start()
        world.send(10)
        world.run(stream, "after", spark)
        assert len(table_rows(stream)) == 110
    finally:
        broker.stop()


def test_a_swapped_cluster_halts(world, landed, spark, tmp_path):
    """The same names on other brokers are other topics."""
    other = Broker(tmp_path / "other").start()
    try:
        moved = World(other, world.folder, world.name)
        moved.create(partitions=1)
        moved.send(300)
        assert halts(world, landed, spark).kind == "cluster_changed"
    finally:
        other.stop()


def test_a_broker_that_is_away_is_no_finding(world, landed, spark, tmp_path):
    """Retriable; nothing moved, no incident."""
    before = head(landed)
    away = Broker(tmp_path / "away")  # never started
    World(away, world.folder, world.name)
    import json
    import os

    extra = {"bootstrap.servers": away.bootstrap_servers, "default.api.timeout.ms": 1500}
    variable = f"AIRFLOW_CONN_{world.connection.upper()}"
    os.environ[variable] = json.dumps({"conn_type": "kafka", "extra": extra})
    with pytest.raises(ServiceAway):
        world.run(landed, "away", spark)
    assert head(landed) == before
    assert not open_ledger(landed).read().control.incidents


@pytest.mark.slow
def test_a_table_that_was_dropped_under_an_open_plan_is_not_made_anew(world, landed, spark):
    """The rows of earlier runs were in it."""
    world.send(10)
    with open_run(landed, "open", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
    shutil.rmtree(landed.table.uri)
    with pytest.raises(ResetDetected, match="the table is gone"):
        world.run(landed, "open", spark)
    assert not (world.folder / "lake" / "orders").exists()


@pytest.mark.slow
def test_another_cluster_s_topics_are_not_adopted(world, spark, tmp_path):
    """Or they would be missed for good once the connection points back."""
    world.create("a", partitions=1)
    world.send(5, "a")
    stream = world.stream(kafka={"topic_pattern": f"{world.name}-.*"})
    world.run(stream, "lands", spark)
    other = Broker(tmp_path / "other").start()
    try:
        elsewhere = World(other, world.folder, world.name)
        elsewhere.create("b", partitions=1)
        assert halts(world, stream, spark).kind == "cluster_changed"
    finally:
        other.stop()
    World(world.broker, world.folder, world.name)
    world.send(5, "a")
    assert world.run(stream, "back", spark).status == "done"


@pytest.mark.slow
def test_a_finding_that_is_no_longer_there_lets_the_next_run_go_on(world, landed, spark, tmp_path):
    """A connection that pointed to the wrong cluster for a while."""
    other = Broker(tmp_path / "other").start()
    try:
        halts_there = World(other, world.folder, world.name)
        halts_there.create(partitions=1)
        halts(world, landed, spark)
    finally:
        other.stop()
    World(world.broker, world.folder, world.name)
    world.send(5)
    assert world.run(landed, "back", spark).status == "done"
    assert not open_ledger(landed).read().control.incidents


def test_a_topic_that_was_recreated_while_it_was_read_blocks_the_advance(world, landed, spark):
    """Spark reads by name: the rows may be another incarnation's (R7)."""
    world.send(10)
    before = head(landed)
    with open_run(landed, "doubtful", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        ingest_ranges(run)
        world.delete()
        world.create(partitions=1)
        world.send(300)
        with pytest.raises(ResetDetected, match="topic_recreated"):
            advance_offsets(run)
    assert head(landed) == before


@pytest.mark.slow
def test_a_log_start_that_moved_after_the_read_blocks_nothing(world, landed, spark):
    """The rows are here."""
    world.send(10)
    with open_run(landed, "moved", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        ingest_ranges(run)
        world.delete_records(before=110)
        assert advance_offsets(run).status == "done"
    assert len(table_rows(landed)) == 110


def test_an_empty_ledger_beside_a_filled_table_is_refused(world, landed, spark):
    """Starting over would land everything again under another ledger."""
    shutil.rmtree(landed.ledger_location)
    version = table_version(landed)
    with pytest.raises(ResetDetected, match="another ledger"):
        world.run(landed, "anew", spark)
    assert table_version(landed) == version


@pytest.mark.slow
def test_a_second_stream_on_one_table_is_refused(world, landed, spark):
    """Two heads over one table would not know of each other."""
    second = world.stream(
        name="second",
        table={"uri": landed.table.uri},
        ledger_uri=str(world.folder / "second.ledger"),
    )
    with pytest.raises(ResetDetected, match="belongs to another stream"):
        world.run(second, "run", spark)


@pytest.mark.slow
def test_a_table_of_somebody_else_is_refused(world, spark):
    """It has no mark of ours, so nothing in it is ours to replace."""
    world.create(partitions=1)
    world.send(5)
    stream = world.stream()
    spark.session.range(5).write.format("delta").save(stream.table.uri)
    with pytest.raises(ResetDetected, match="not created by Tideline"):
        world.run(stream, "run", spark)
    assert table_version(stream) == 0


def test_a_topic_that_never_was_is_bad_input(world, spark):
    """A typing error, not a loss."""
    with pytest.raises(BadInput, match="no such topic"):
        world.run(world.stream(topics=("nowhere",)), "run", spark)


def test_a_replay_that_kafka_cannot_serve_is_refused_and_the_rows_stay(world, landed, spark):
    """It says what is still there."""
    world.delete_records(before=60)
    with pytest.raises(ReplayUnavailable, match=r"still there: \[60, 100\)"):
        world.run(landed, "lands", spark)
    assert len(table_rows(landed)) == 100
