"""Findings on a real broker: halted, named, nothing read, nothing written, head unmoved."""

import json
import os
import shutil

import pytest

from devstack.broker import Broker
from devstack.harness import StreamHarness
from tests.worlds.streams import folder_of, head, table_rows, table_version
from tideline.errors import BadInput, ReplayUnavailable, ResetDetected, ServiceAway
from tideline.model.request import RunRequest
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)
from tideline.wiring import open_ledger, open_run


def halts(harness, stream, spark, run_id="halted"):
    """Run, and check that nothing moved; the finding."""
    before = (head(stream), table_version(stream), spark.submits)
    with pytest.raises(ResetDetected) as halted:
        harness.run(stream, run_id, spark)
    assert (head(stream), table_version(stream), spark.submits) == before
    (incident,) = halted.value.incidents
    assert incident in open_ledger(stream).read().control.incidents
    return incident.finding


def test_deleted_records_halt_and_are_named(harness, landed, spark):
    """Retention does the same; [next offset, log start) is lost."""
    harness.send(50)
    harness.delete_records(before=130)
    finding = halts(harness, landed, spark)
    assert finding.kind == "retention_loss"
    assert (finding.lost_start, finding.lost_end) == (100, 130)


@pytest.mark.slow
def test_a_later_run_attaches_to_the_open_incident(harness, landed, spark):
    """One loss, one incident, however often the schedule comes round."""
    harness.send(50)
    harness.delete_records(before=130)
    for run_id in ("first", "second"):
        halts(harness, landed, spark, run_id)
    (incident,) = open_ledger(landed).read().control.incidents
    assert incident.run_id == "first"


def test_a_recreated_topic_refilled_past_the_position_halts(harness, landed, spark):
    """Only the id tells: nothing is read, nothing is written."""
    old = harness.topic_id()
    harness.delete()
    harness.create(partitions=1)
    harness.send(200)
    finding = halts(harness, landed, spark)
    assert finding.kind == "topic_recreated"
    assert old in str(finding)
    assert harness.topic_id() in str(finding)


@pytest.mark.slow
def test_a_deleted_topic_halts(harness, landed, spark):
    """Gone is not empty."""
    harness.delete()
    assert halts(harness, landed, spark).kind == "topic_missing"


@pytest.mark.slow
def test_a_topic_that_a_pattern_no_longer_lists_is_missed(harness, spark):
    """R14: known topics are asked for by name; the pattern alone would forget it."""
    harness.create("a", partitions=1)
    harness.create("b", partitions=1)
    harness.send(5, "a")
    harness.send(5, "b")
    stream = harness.stream(kafka={"topic_pattern": f"{harness.name}-.*"})
    harness.run(stream, "lands", spark)
    harness.delete("a")
    finding = halts(harness, stream, spark)
    assert (finding.kind, finding.place) == ("topic_missing", harness.topic("a"))


def test_a_wiped_and_refilled_log_halts(tmp_path, spark):
    """Same id, log start 0, more records than before: only the known epoch's end tells."""
    broker = Broker(tmp_path / "kafka").start()
    try:
        harness = StreamHarness(broker, tmp_path, "wiped")
        name = harness.create(partitions=1)
        harness.send(100)
        stream = harness.stream()
        harness.run(stream, "lands", spark)
        broker.stop()
        shutil.rmtree(broker.data / f"{name}-0")
        broker.start()
        harness.send(300)
        assert halts(harness, stream, spark).kind == "truncation"
    finally:
        broker.stop()


def test_a_clean_restart_is_no_finding(tmp_path, spark):
    """The epoch changes, the log does not."""
    broker = Broker(tmp_path / "kafka").start()
    try:
        harness = StreamHarness(broker, tmp_path, "restarted")
        harness.create(partitions=1)
        harness.send(100)
        stream = harness.stream()
        harness.run(stream, "lands", spark)
        broker.stop()
        broker.start()
        harness.send(10)
        harness.run(stream, "after", spark)
        assert len(table_rows(stream)) == 110
    finally:
        broker.stop()


def test_a_swapped_cluster_halts(harness, landed, spark, tmp_path):
    """The same names on other brokers are other topics."""
    other = Broker(tmp_path / "other").start()
    try:
        moved = StreamHarness(other, harness.folder, harness.name)
        moved.create(partitions=1)
        moved.send(300)
        assert halts(harness, landed, spark).kind == "cluster_changed"
    finally:
        other.stop()


def test_a_broker_that_is_away_is_no_finding(harness, landed, spark, tmp_path):
    """Retriable; nothing moved, no incident."""
    before = head(landed)
    away = Broker(tmp_path / "away")  # never started
    StreamHarness(away, harness.folder, harness.name)
    extra = {"bootstrap.servers": away.bootstrap_servers, "default.api.timeout.ms": 1500}
    variable = f"AIRFLOW_CONN_{harness.connection.upper()}"
    os.environ[variable] = json.dumps({"conn_type": "kafka", "extra": extra})
    with pytest.raises(ServiceAway):
        harness.run(landed, "away", spark)
    assert head(landed) == before
    assert not open_ledger(landed).read().control.incidents


@pytest.mark.slow
def test_a_table_that_was_dropped_under_an_open_plan_is_not_made_anew(harness, landed, spark):
    """The rows of earlier runs were in it."""
    harness.send(10)
    with open_run(landed, "open", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
    shutil.rmtree(folder_of(landed.table.uri))
    with pytest.raises(ResetDetected, match="the table is gone"):
        harness.run(landed, "open", spark)
    assert not folder_of(f"{harness.lake}/orders").exists()


@pytest.mark.slow
def test_another_cluster_s_topics_are_not_adopted(harness, spark, tmp_path):
    """Or they would be missed for good once the connection points back."""
    harness.create("a", partitions=1)
    harness.send(5, "a")
    stream = harness.stream(kafka={"topic_pattern": f"{harness.name}-.*"})
    harness.run(stream, "lands", spark)
    other = Broker(tmp_path / "other").start()
    try:
        elsewhere = StreamHarness(other, harness.folder, harness.name)
        elsewhere.create("b", partitions=1)
        assert halts(harness, stream, spark).kind == "cluster_changed"
    finally:
        other.stop()
    StreamHarness(harness.broker, harness.folder, harness.name)
    harness.send(5, "a")
    assert harness.run(stream, "back", spark).status == "done"


@pytest.mark.slow
def test_a_finding_that_is_no_longer_there_lets_the_next_run_go_on(
    harness, landed, spark, tmp_path
):
    """A connection that pointed to the wrong cluster for a while."""
    other = Broker(tmp_path / "other").start()
    try:
        halts_there = StreamHarness(other, harness.folder, harness.name)
        halts_there.create(partitions=1)
        halts(harness, landed, spark)
    finally:
        other.stop()
    StreamHarness(harness.broker, harness.folder, harness.name)
    harness.send(5)
    assert harness.run(landed, "back", spark).status == "done"
    assert not open_ledger(landed).read().control.incidents


def test_a_topic_that_was_recreated_while_it_was_read_blocks_the_advance(harness, landed, spark):
    """Spark reads by name: the rows may be another incarnation's (R7)."""
    harness.send(10)
    before = head(landed)
    with open_run(landed, "doubtful", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        ingest_ranges(run)
        harness.delete()
        harness.create(partitions=1)
        harness.send(300)
        with pytest.raises(ResetDetected, match="topic_recreated"):
            verify_ranges(run)
        with pytest.raises(BadInput, match="not verified"):
            advance_offsets(run)
    assert head(landed) == before


def test_a_topic_that_was_recreated_after_verifying_blocks_the_advance(harness, landed, spark):
    """In Airflow hours may lie between two tasks; the log is asked once more (R7)."""
    harness.send(10)
    before = head(landed)
    with open_run(landed, "verified", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        ingest_ranges(run)
        verify_ranges(run)
        harness.delete()
        harness.create(partitions=1)
        harness.send(300)
        with pytest.raises(ResetDetected, match="topic_recreated"):
            advance_offsets(run)
    assert head(landed) == before


@pytest.mark.slow
def test_a_log_start_that_moved_after_the_read_blocks_nothing(harness, landed, spark):
    """The rows are here."""
    harness.send(10)
    with open_run(landed, "moved", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        ingest_ranges(run)
        harness.delete_records(before=110)
        verify_ranges(run)
        assert advance_offsets(run).status == "done"
    assert len(table_rows(landed)) == 110


def test_an_empty_ledger_beside_a_filled_table_is_refused(harness, landed, spark):
    """Starting over would land everything again under another ledger."""
    shutil.rmtree(folder_of(landed.ledger_location.address))
    version = table_version(landed)
    with pytest.raises(ResetDetected, match="another ledger"):
        harness.run(landed, "anew", spark)
    assert table_version(landed) == version


@pytest.mark.slow
def test_a_second_stream_on_one_table_is_refused(harness, landed, spark):
    """Two heads over one table would not know of each other."""
    second = harness.stream(
        name="second",
        table={"uri": landed.table.uri},
        ledger_uri=f"{harness.lake}/second.ledger",
    )
    with pytest.raises(ResetDetected, match="belongs to another stream"):
        harness.run(second, "run", spark)


@pytest.mark.slow
def test_a_table_of_somebody_else_is_refused(harness, spark):
    """It has no mark of ours, so nothing in it is ours to replace."""
    harness.create(partitions=1)
    harness.send(5)
    stream = harness.stream()
    spark.session.range(5).write.format("delta").save(stream.table.uri)
    with pytest.raises(ResetDetected, match="not created by Tideline"):
        harness.run(stream, "run", spark)
    assert table_version(stream) == 0


def test_a_topic_that_never_was_is_bad_input(harness, spark):
    """A typing error, not a loss."""
    with pytest.raises(BadInput, match="no such topic"):
        harness.run(harness.stream(topics=("nowhere",)), "run", spark)


def test_a_replay_that_kafka_cannot_serve_is_refused_and_the_rows_stay(harness, landed, spark):
    """It says what is still there."""
    harness.delete_records(before=60)
    with pytest.raises(ReplayUnavailable, match=r"still there: \[60, 100\)"):
        harness.run(landed, "lands", spark)
    assert len(table_rows(landed)) == 100
