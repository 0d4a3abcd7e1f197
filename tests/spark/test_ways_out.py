"""From every halt some action leads on, and no row that is in the table is lost on the way."""

import shutil

import pytest
from kafka import KafkaProducer

from devstack.broker import Broker
from tests.real import World, closed_incidents, decide, head, spans, table_rows
from tests.spark.test_decisions import clean, halts
from tests.spark.test_gaps import Lossy
from tests.spark.test_settling import commit_only, freeze_only
from tideline.errors import ResetDetected
from tideline.model.incident import Finding
from tideline.model.request import RunRequest
from tideline.pipeline import landing
from tideline.pipeline.asking import ask
from tideline.pipeline.verify_ranges import verify_ranges
from tideline.wiring import open_ledger, open_run


class Before:
    """Something happens right before Spark starts."""

    def __init__(self, spark, happens):
        self.spark, self.happens = spark, happens

    def submit(self, job_path):
        self.happens()
        self.spark.submit(job_path)


def test_a_delete_by_others_while_spark_was_writing_is_noticed(world, landed, spark):
    """R13: the head takes no version for known that it has not looked at."""
    world.send(10)

    def delete():
        spark.session.sql(f"DELETE FROM delta.`{landed.table.uri}` WHERE offset < 40")

    assert halts(world, landed, Before(spark, delete)) == ["table_changed"]
    assert head(landed) == {(world.topic(), 0): 100}
    decide(landed, "approve")
    record = world.run(landed, "halted", spark)
    assert record.status == "done"
    assert "40 verified offsets" in record.resolved[0].outcome
    assert clean(world, landed)


@pytest.mark.slow
def test_an_incident_that_has_gone_by_costs_no_second_reading(world, landed, spark, monkeypatch):
    """Rights were taken away and given back: the rows verify, though Kafka has lost them since."""
    world.send(10)
    commit_only(landed, "landed", spark)

    with open_run(landed, "landed", RunRequest(), spark) as run, monkeypatch.context() as refused:
        refused.setattr(landing, "check_after_read", lambda *_: (refusal(world),))
        with pytest.raises(ResetDetected, match="unknown"):
            verify_ranges(run)
    world.send(5)
    world.delete_records(before=110)
    submits = spark.submits
    assert spans(world.run(landed, "later", spark)) == [(0, 110, 115)]
    assert spark.submits == submits + 1
    assert len(table_rows(landed)) == 115
    assert [i.outcome for i in closed_incidents(landed)] == ["verified after all by run later"]
    assert clean(world, landed)


def refusal(world):

    return Finding("unknown", "an answer", "AuthorizationError", world.topic(), None, 0)


@pytest.mark.slow
def test_evidence_is_kept_when_a_run_halts(world, spark):
    """One marker, one real gap; the marker's batch expires before somebody decides."""
    name = world.create(partitions=1)
    world.transactions((b"x", 10, True))
    world.send(20)
    stream = world.stream()
    assert halts(world, stream, Lossy(spark, 5)) == ["unexplained_gap"]
    world.delete_records(before=20)
    decide(stream, "accept_loss")
    record = world.run(stream, "later", spark)
    assert record.status == "done"
    assert head(stream) == {(name, 0): 31}
    assert len(table_rows(stream)) == 25
    assert clean(world, stream)


@pytest.mark.slow
def test_a_cluster_that_lacks_a_topic_can_be_followed(world, spark, tmp_path):
    """What is not there is retired with the same decision."""
    world.create("a", partitions=1)
    world.create("b", partitions=1)
    world.send(5, "a")
    world.send(5, "b")
    stream = world.stream(topics=("a", "b"))
    world.run(stream, "lands", spark)
    other = Broker(tmp_path / "other").start()
    try:
        moved = World(other, world.folder, world.name)
        moved.create("a", partitions=1)
        moved.send(3, "a")
        assert halts(world, stream, spark) == ["cluster_changed"]
        decide(stream, "restart")
        record = world.run(stream, "moved", spark)
        assert spans(record) == [(0, 0, 3)]
        assert head(stream) == {(world.topic("a"), 0): 3}
        assert "no longer followed" in record.resolved[0].outcome
        assert len(table_rows(stream)) == 13
    finally:
        other.stop()


def test_a_table_that_is_back_needs_no_decision(world, landed, spark, tmp_path):
    """Gone under a frozen plan, restored from a copy: nobody is asked, the plan goes on."""
    world.send(10)

    freeze_only(landed, "frozen", spark)
    shutil.move(landed.table.uri, tmp_path / "copy")
    assert halts(world, landed, spark, "frozen") == ["table_changed"]
    shutil.move(tmp_path / "copy", landed.table.uri)
    with open_run(landed, "frozen", RunRequest(), spark) as run:
        assert ask(run) == ()
    assert world.run(landed, "frozen", spark).status == "done"
    assert not open_ledger(landed).read().control.incidents
    assert clean(world, landed)


@pytest.mark.slow
def test_two_gaps_of_one_plan_are_decided_together(world, spark):
    """Each is verified for itself, and the ledger forgets neither."""
    name = world.create(partitions=3)
    for partition in range(3):
        world.send(50, partition=partition)
    stream = world.stream(on_incident="proceed")
    kinds = halts(world, stream, Lossy(spark, 10, partitions=(0, 1)))
    assert kinds == ["unexplained_gap"] * 2
    world.run(stream, "healthy", spark)
    assert head(stream) == {(name, 0): 0, (name, 1): 0, (name, 2): 50}
    for incident in open_ledger(stream).read().control.incidents:
        decide(stream, "accept_loss", incident.incident_id)
    world.run(stream, "decided", spark)
    assert head(stream) == {(name, 0): 50, (name, 1): 50, (name, 2): 50}
    covered = open_ledger(stream).read().head.coverage
    assert [(c.identity.partition, str(c.intervals[0])) for c in covered] == [
        (0, "[0, 50)"),
        (1, "[0, 50)"),
        (2, "[0, 50)"),
    ]
    found, findings = world.audit(stream)
    assert (found.clean, found.rows, findings) == (True, 130, ())


def test_one_of_two_gaps_decided_does_not_stop_the_healthy(world, spark):
    """on_incident: proceed: the other one stays open, and out of the way."""
    name = world.create(partitions=3)
    for partition in range(3):
        world.send(50, partition=partition)
    stream = world.stream(on_incident="proceed")
    halts(world, stream, Lossy(spark, 10, partitions=(0, 1)))
    decide(stream, "accept_loss", "incident-1")
    world.run(stream, "later", spark)
    assert head(stream) == {(name, 0): 50, (name, 1): 0, (name, 2): 50}
    assert [i.incident_id for i in open_ledger(stream).read().control.incidents] == ["incident-2"]


@pytest.mark.slow
def test_a_timestamp_that_is_no_date_stops_nothing(world, spark):
    """A producer that counts in microseconds: year 57868; reading goes by offsets."""
    name = world.create(
        partitions=1, **{"message.timestamp.after.max.ms": str(2**63 - 1), "retention.ms": "-1"}
    )
    producer = KafkaProducer(bootstrap_servers=world.broker.bootstrap_servers)
    for _ in range(5):
        producer.send(name, b"x", partition=0, timestamp_ms=1_764_000_000_000_000)
    producer.close()
    stream = world.stream()
    assert world.run(stream, "lands", spark).status == "done"
    world.send(10)
    world.delete_records(before=10)
    assert halts(world, stream, spark) == ["retention_loss"]
    decide(stream, "accept_loss")
    assert spans(world.run(stream, "later", spark)) == [(0, 10, 15)]
    assert clean(world, stream)
