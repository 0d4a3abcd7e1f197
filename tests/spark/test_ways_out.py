"""From every halt some action leads on, and no row that is in the table is lost on the way."""

import shutil

import pytest
from deltalake import DeltaTable, write_deltalake
from kafka import KafkaProducer

from devstack.broker import Broker
from devstack.harness import StreamHarness
from tests.worlds.spark_doubles import HookedSpark, LossySpark
from tests.worlds.streams import (
    closed_incidents,
    commit_only,
    decide,
    folder_of,
    freeze_only,
    halts,
    head,
    is_clean,
    spans,
    table_rows,
)
from tideline.errors import BadInput, ResetDetected, VerificationFailed
from tideline.landing import proof as log_checks
from tideline.model.incident import Finding
from tideline.model.request import RunRequest
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.resolve_reset import ask
from tideline.pipeline.steps import advance_offsets, verify_ranges
from tideline.wiring import open_ledger, open_run


def test_a_delete_by_others_after_verifying_is_noticed(harness, landed, spark):
    """The advance counts no row again: it holds the table's newer commits against the ledger."""
    harness.send(10)
    commit_only(landed, "verified", spark)
    with open_run(landed, "verified", RunRequest(), spark) as run:
        verify_ranges(run)
        DeltaTable(landed.table.uri).delete("offset >= 100")
        with pytest.raises(ResetDetected, match="table_changed"):
            advance_offsets(run)
    assert head(landed) == {(harness.topic(), 0): 100}


def test_a_commit_that_nobody_has_verified_is_not_advanced(harness, landed, spark):
    """Read again since: the newest commit counts, not the one that was verified."""
    with open_run(landed, "lands", RunRequest(), spark) as run:
        ingest_ranges(run)
        with pytest.raises(BadInput, match="not verified"):
            advance_offsets(run)
        commit, _ = verify_ranges(run)
        assert advance_offsets(run).table_commit == commit
    assert is_clean(harness, landed)


def test_verifying_itself_notices_a_delete_by_others(harness, landed, spark):
    """Before anything relies on the newer version, and not only when the head moves."""
    harness.send(10)
    commit_only(landed, "halted", spark)
    DeltaTable(landed.table.uri).delete("offset < 40")
    with (
        open_run(landed, "halted", RunRequest(), spark) as run,
        pytest.raises(ResetDetected, match="table_changed"),
    ):
        verify_ranges(run)


def test_an_approved_removal_of_rows_that_are_not_advanced_yet_is_read_again(
    harness, landed, spark
):
    """What was verified before the approval counts for nothing after it."""
    harness.send(10)
    commit_only(landed, "verified", spark)
    with open_run(landed, "verified", RunRequest(), spark) as run:
        verify_ranges(run)
        DeltaTable(landed.table.uri).delete("offset >= 100")
        with pytest.raises(ResetDetected, match="table_changed"):
            advance_offsets(run)
    decide(landed, "approve")
    assert harness.run(landed, "verified", spark).status == "done"
    assert len(table_rows(landed)) == 110
    assert is_clean(harness, landed)


def test_a_verification_that_fails_takes_an_earlier_one_back(harness, landed, spark):
    """Nobody advances by what was true an hour ago."""
    harness.send(10)
    commit_only(landed, "verified", spark)
    with open_run(landed, "verified", RunRequest(), spark) as run:
        verify_ranges(run)
        copied = DeltaTable(landed.table.uri).to_pyarrow_table(filters=[("offset", "=", 105)])
        write_deltalake(landed.table.uri, copied, mode="append")
        with pytest.raises(VerificationFailed, match="1 rows too many"):
            verify_ranges(run)
        with pytest.raises(BadInput, match="not verified"):
            advance_offsets(run)
    assert head(landed) == {(harness.topic(), 0): 100}


def test_a_delete_while_spark_was_reading_halts_before_the_commit(harness, landed, spark):
    """R13: the head takes no version for known that it has not looked at."""
    harness.send(10)

    def delete():
        spark.session.sql(f"DELETE FROM delta.`{landed.table.uri}` WHERE offset < 40")

    assert halts(harness, landed, HookedSpark(spark, before=delete)) == ["table_changed"]
    assert head(landed) == {(harness.topic(), 0): 100}
    assert len(table_rows(landed)) == 60
    decide(landed, "approve")
    record = harness.run(landed, "halted", spark)
    assert record.status == "done"
    assert "40 verified offsets" in record.resolved[0].outcome
    assert is_clean(harness, landed)


@pytest.mark.slow
def test_an_incident_that_has_gone_by_costs_no_second_reading(harness, landed, spark, monkeypatch):
    """Rights were taken away and given back: the rows verify, though Kafka has lost them since."""
    harness.send(10)
    commit_only(landed, "landed", spark)

    with open_run(landed, "landed", RunRequest(), spark) as run, monkeypatch.context() as refused:
        refused.setattr(log_checks, "changes_after_read", lambda *_: (refusal(harness),))
        with pytest.raises(ResetDetected, match="unknown"):
            verify_ranges(run)
    harness.send(5)
    harness.delete_records(before=110)
    submits = spark.submits
    assert spans(harness.run(landed, "later", spark)) == [(0, 110, 115)]
    assert spark.submits == submits + 1
    assert len(table_rows(landed)) == 115
    assert [i.outcome for i in closed_incidents(landed)] == ["verified after all by run later"]
    assert is_clean(harness, landed)


def refusal(harness):

    return Finding("unknown", "an answer", "AuthorizationError", harness.topic(), None, 0)


@pytest.mark.slow
def test_evidence_is_kept_when_a_run_halts(harness, spark):
    """One marker, one real gap; the marker's batch expires before somebody decides."""
    name = harness.create(partitions=1)
    harness.transactions((b"x", 10, True))
    harness.send(20)
    stream = harness.stream()
    assert halts(harness, stream, LossySpark(spark, 5)) == ["unexplained_gap"]
    harness.delete_records(before=20)
    decide(stream, "accept_loss")
    record = harness.run(stream, "later", spark)
    assert record.status == "done"
    assert head(stream) == {(name, 0): 31}
    assert len(table_rows(stream)) == 25
    assert is_clean(harness, stream)


@pytest.mark.slow
def test_a_cluster_that_lacks_a_topic_can_be_followed(harness, spark, tmp_path):
    """What is not there is retired with the same decision."""
    harness.create("a", partitions=1)
    harness.create("b", partitions=1)
    harness.send(5, "a")
    harness.send(5, "b")
    stream = harness.stream(topics=("a", "b"))
    harness.run(stream, "lands", spark)
    other = Broker(tmp_path / "other").start()
    try:
        moved = StreamHarness(other, harness.folder, harness.name)
        moved.create("a", partitions=1)
        moved.send(3, "a")
        assert halts(harness, stream, spark) == ["cluster_changed"]
        decide(stream, "restart")
        record = harness.run(stream, "moved", spark)
        assert spans(record) == [(0, 0, 3)]
        assert head(stream) == {(harness.topic("a"), 0): 3}
        assert "no longer followed" in record.resolved[0].outcome
        assert len(table_rows(stream)) == 13
    finally:
        other.stop()


def test_a_table_that_is_back_needs_no_decision(harness, landed, spark, tmp_path):
    """Gone under a frozen plan, restored from a copy: nobody is asked, the plan goes on."""
    harness.send(10)

    freeze_only(landed, "frozen", spark)
    shutil.move(folder_of(landed.table.uri), tmp_path / "copy")
    assert halts(harness, landed, spark, "frozen") == ["table_changed"]
    shutil.move(tmp_path / "copy", folder_of(landed.table.uri))
    with open_run(landed, "frozen", RunRequest(), spark) as run:
        assert ask(run) == ()
    assert harness.run(landed, "frozen", spark).status == "done"
    assert not open_ledger(landed).read().control.incidents
    assert is_clean(harness, landed)


@pytest.mark.slow
def test_two_gaps_of_one_plan_are_decided_together(harness, spark):
    """Each is verified for itself, and the ledger forgets neither."""
    name = harness.create(partitions=3)
    for partition in range(3):
        harness.send(50, partition=partition)
    stream = harness.stream(on_incident="proceed")
    kinds = halts(harness, stream, LossySpark(spark, 10, partitions=(0, 1)))
    assert kinds == ["unexplained_gap"] * 2
    harness.run(stream, "healthy", spark)
    assert head(stream) == {(name, 0): 0, (name, 1): 0, (name, 2): 50}
    for incident in open_ledger(stream).read().control.incidents:
        decide(stream, "accept_loss", incident.incident_id)
    harness.run(stream, "decided", spark)
    assert head(stream) == {(name, 0): 50, (name, 1): 50, (name, 2): 50}
    covered = open_ledger(stream).read().head.coverage
    assert [(c.identity.partition, str(c.intervals[0])) for c in covered] == [
        (0, "[0, 50)"),
        (1, "[0, 50)"),
        (2, "[0, 50)"),
    ]
    found, findings = harness.audit(stream)
    assert (found.clean, found.rows, findings) == (True, 130, ())


def test_one_of_two_gaps_decided_does_not_stop_the_healthy(harness, spark):
    """on_incident: proceed: the other one stays open, and out of the way."""
    name = harness.create(partitions=3)
    for partition in range(3):
        harness.send(50, partition=partition)
    stream = harness.stream(on_incident="proceed")
    halts(harness, stream, LossySpark(spark, 10, partitions=(0, 1)))
    decide(stream, "accept_loss", "incident-1")
    harness.run(stream, "later", spark)
    assert head(stream) == {(name, 0): 50, (name, 1): 0, (name, 2): 50}
    assert [i.incident_id for i in open_ledger(stream).read().control.incidents] == ["incident-2"]


@pytest.mark.slow
def test_a_timestamp_that_is_no_date_stops_nothing(harness, spark):
    """A producer that counts in microseconds: year 57868; reading goes by offsets."""
    name = harness.create(
        partitions=1, **{"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    )
    producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap_servers)
    for _ in range(5):
        producer.send(name, b"x", partition=0, timestamp_ms=1_764_000_000_000_000)
    producer.close()
    stream = harness.stream()
    assert harness.run(stream, "lands", spark).status == "done"
    harness.send(10)
    harness.delete_records(before=10)
    assert halts(harness, stream, spark) == ["retention_loss"]
    decide(stream, "accept_loss")
    assert spans(harness.run(stream, "later", spark)) == [(0, 10, 15)]
    assert is_clean(harness, stream)
