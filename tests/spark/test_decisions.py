"""Decisions on a real broker: carried out, recorded, and narrow (R6, R8, R9)."""

import shutil

import pytest
from deltalake import DeltaTable

from devstack.broker import Broker
from devstack.harness import StreamHarness
from tests.worlds.spark_doubles import HookedSpark, LossySpark
from tests.worlds.streams import (
    closed_incidents,
    decide,
    folder_of,
    halts,
    head,
    is_clean,
    spans,
    table_rows,
    table_version,
)
from tideline.errors import ReplayUnavailable, ResetDetected
from tideline.model.request import RunRequest
from tideline.operations.reading import dry_run
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges, verify_ranges
from tideline.wiring import open_ledger, open_run


def copies(stream):
    """(generation, offset) of every row; a second copy would show."""
    found = table_rows(stream, "topic_id", "generation", "partition", "offset")
    assert len(set(found)) == len(found)
    return found


def test_an_accepted_loss_goes_on_at_the_log_start(harness, landed, spark):
    """The halted run, run again; lost interval, name and reason are in the ledger."""
    name = harness.topic()
    harness.send(50)
    harness.delete_records(before=130)
    assert halts(harness, landed, spark) == ["retention_loss"]
    decide(landed, "accept_loss", by="ann", reason="those were tests")
    record = harness.run(landed, "halted", spark)
    assert spans(record) == [(0, 130, 150)]
    assert head(landed) == {(name, 0): 150}
    (incident,) = closed_incidents(landed)
    assert (incident.decision.by, incident.decision.reason) == ("ann", "those were tests")
    assert (incident.finding.lost_start, incident.finding.lost_end) == (100, 130)
    assert "lost: [100, 130): 30 offsets" in incident.outcome
    assert incident.finding.lost_from is not None
    assert incident.finding.lost_until >= incident.finding.lost_from
    assert is_clean(harness, landed)


@pytest.mark.slow
def test_what_is_really_lost_is_recorded_when_the_decision_is_carried_out(harness, landed, spark):
    """Retention went on after the decision."""
    harness.send(50)
    harness.delete_records(before=130)
    halts(harness, landed, spark)
    decide(landed, "accept_loss")
    harness.delete_records(before=140)
    assert spans(harness.run(landed, "later", spark)) == [(0, 140, 150)]
    (incident,) = closed_incidents(landed)
    assert "lost: [100, 140): 40 offsets" in incident.outcome


def test_a_policy_decides_without_a_person(harness, landed, spark):
    """on_reset.retention_loss: accept_loss; no run fails, the ledger says by policy."""
    stream = landed.model_copy(
        update={"on_reset": landed.on_reset.model_copy(update={"retention_loss": "accept_loss"})}
    )
    harness.send(50)
    harness.delete_records(before=130)
    record = harness.run(stream, "goes on", spark)
    assert spans(record) == [(0, 130, 150)]
    assert record.resolved[0].decision.by == "policy"
    assert is_clean(harness, stream)


@pytest.mark.slow
def test_fail_keeps_the_incident_open_until_somebody_decides_otherwise(harness, landed, spark):
    """It is an answer, and not the last."""
    harness.send(50)
    harness.delete_records(before=130)
    halts(harness, landed, spark)
    decide(landed, "fail")
    assert halts(harness, landed, spark, "later") == ["retention_loss"]
    decide(landed, "accept_loss")
    assert harness.run(landed, "at last", spark).status == "done"


def test_one_bad_partition_does_not_hold_up_the_others(harness, spark):
    """on_incident: proceed: the finder halts, later runs land the healthy partitions."""
    name = harness.create(partitions=2)
    harness.send(10)
    harness.send(10, partition=1)
    stream = harness.stream(on_incident="proceed")
    harness.run(stream, "lands", spark)
    harness.send(10)
    harness.send(10, partition=1)
    harness.delete_records(before=15)
    assert halts(harness, stream, spark) == ["retention_loss"]
    assert head(stream) == {(name, 0): 10, (name, 1): 10}
    assert spans(harness.run(stream, "healthy", spark)) == [(1, 10, 20)]
    harness.send(5, partition=1)
    assert spans(harness.run(stream, "healthy again", spark)) == [(1, 20, 25)]
    (incident,) = open_ledger(stream).read().control.incidents
    assert incident.run_id == "halted"
    decide(stream, "accept_loss")
    assert spans(harness.run(stream, "decided", spark)) == [(0, 15, 20)]
    assert head(stream) == {(name, 0): 20, (name, 1): 25}
    assert is_clean(harness, stream)


@pytest.mark.parametrize("choice", ["restart", "accept_loss"])
def test_a_recreated_topic_is_read_beside_the_old_one(harness, landed, spark, choice):
    """The old incarnation's rows stay; the same offsets under the new id are other records."""
    old = harness.topic_id()
    harness.delete()
    harness.create(partitions=2)
    harness.send(30, value=b"new")
    assert halts(harness, landed, spark) == ["topic_recreated"]
    decide(landed, choice)
    record = harness.run(landed, "later", spark)
    assert spans(record) == [(0, 0, 30)]
    assert len(copies(landed)) == 130
    by_id = [topic_id for (topic_id,) in table_rows(landed, "topic_id")]
    assert (by_id.count(old), by_id.count(harness.topic_id())) == (100, 30)
    assert is_clean(harness, landed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("choice", "expected"), [("accept_loss", (0, 0, 300)), ("restart", (0, 0, 300))]
)
def test_a_wiped_log_goes_on_in_a_new_generation(tmp_path, spark, choice, expected):
    """Cut at 0, so both read all that is there; the old rows stay in generation 0."""
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
        assert halts(harness, stream, spark) == ["truncation"]
        decide(stream, choice)
        assert spans(harness.run(stream, "later", spark)) == [expected]
        generations = [g for (g,) in table_rows(stream, "generation")]
        assert (generations.count(0), generations.count(1)) == (100, 300)
        assert len(copies(stream)) == 400
        assert is_clean(harness, stream)
        harness.send(5)
        assert spans(harness.run(stream, "goes on", spark)) == [(0, 300, 305)]
    finally:
        broker.stop()


@pytest.mark.slow
def test_a_retired_topic_is_no_longer_missed(harness, spark):
    """The other topic goes on; the name may come back as a new topic."""
    harness.create("a", partitions=1)
    harness.create("b", partitions=1)
    harness.send(5, "a")
    harness.send(5, "b")
    stream = harness.stream(topics=("a", "b"))
    harness.run(stream, "lands", spark)
    harness.delete("a")
    harness.send(5, "b")
    assert halts(harness, stream, spark) == ["topic_missing"]
    decide(stream, "retire")
    harness.run(stream, "decided", spark)
    assert head(stream) == {(harness.topic("b"), 0): 10}
    assert harness.run(stream, "quiet", spark).status == "nothing_to_do"
    harness.create("a", partitions=1)
    harness.send(3, "a")
    record = harness.run(stream, "new topic", spark)
    assert [n.kind for n in record.notices] == ["new_topic"]
    assert head(stream) == {(harness.topic("a"), 0): 3, (harness.topic("b"), 0): 10}
    assert len(copies(stream)) == 18


@pytest.mark.slow
def test_a_stream_may_move_to_another_cluster(harness, landed, spark, tmp_path):
    """Every topic starts anew there, beside the old rows."""
    other = Broker(tmp_path / "other").start()
    try:
        moved = StreamHarness(other, harness.folder, harness.name)
        moved.create(partitions=1)
        moved.send(30)
        assert halts(harness, landed, spark) == ["cluster_changed"]
        decide(landed, "restart")
        assert spans(harness.run(landed, "moved", spark)) == [(0, 0, 30)]
        assert len(copies(landed)) == 130
        assert is_clean(moved, landed)
    finally:
        other.stop()


def unverified(harness, stream, spark):
    """A plan whose topic was re-created while it was read: landed, halted, not verified."""
    harness.send(10)
    with open_run(stream, "doubtful", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        ingest_ranges(run)
        harness.delete()
        harness.create(partitions=1)
        harness.send(30)
        with pytest.raises(ResetDetected, match=r"topic_recreated.*unverified rows of plan"):
            verify_ranges(run)


def test_unverified_rows_do_not_stay(harness, landed, spark):
    """R6: nobody knows whose records they are; the version that removed them is on record."""
    unverified(harness, landed, spark)
    assert len(table_rows(landed)) == 110
    assert halts(harness, landed, spark, "later") == ["topic_recreated"]
    decide(landed, "restart")
    record = harness.run(landed, "decided", spark)
    assert spans(record) == [(0, 0, 30)]
    (incident,) = record.resolved
    assert incident.removed_in_version == table_version(landed) - 1
    assert len(copies(landed)) == 130
    assert harness.run(landed, "doubtful", spark).status == "superseded"
    assert is_clean(harness, landed)


def test_the_halted_run_itself_carries_the_decision_out(harness, landed, spark):
    """Cleared after the decision, it ends green; the next run reads the new incarnation."""
    unverified(harness, landed, spark)
    decide(landed, "restart")
    assert harness.run(landed, "doubtful", spark).status == "superseded"
    assert spans(harness.run(landed, "next", spark)) == [(0, 0, 30)]
    assert len(copies(landed)) == 130
    assert is_clean(harness, landed)


def test_somebody_else_s_delete_halts_and_can_be_approved(harness, landed, spark):
    """R13: a legitimate delete is recorded; audit knows about it afterwards."""
    spark.session.sql(f"DELETE FROM delta.`{landed.table.uri}` WHERE offset < 40")
    harness.send(10)
    version = table_version(landed)
    assert halts(harness, landed, spark) == ["table_changed"]
    (incident,) = open_ledger(landed).read().control.incidents
    assert f"version {version}: DELETE" in incident.finding.actual
    assert table_version(landed) == version
    decide(landed, "approve")
    record = harness.run(landed, "approved", spark)
    assert "it no longer holds 40 verified offsets" in record.resolved[0].outcome
    assert spans(record) == [(0, 100, 110)]
    assert is_clean(harness, landed)


@pytest.mark.slow
def test_a_restored_table_halts(harness, landed, spark):
    """Rows that the ledger counts on are gone, whatever the log still holds."""
    harness.send(10)
    harness.run(landed, "second", spark)
    spark.session.sql(f"RESTORE TABLE delta.`{landed.table.uri}` TO VERSION AS OF 1")
    assert halts(harness, landed, spark) == ["table_changed"]
    assert len(table_rows(landed)) == 100


@pytest.mark.slow
def test_upkeep_by_others_is_no_finding(harness, landed, spark):
    """OPTIMIZE and properties move no row."""
    table = f"delta.`{landed.table.uri}`"
    harness.send(10)
    harness.run(landed, "second", spark)
    spark.session.sql(f"OPTIMIZE {table}")
    spark.session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('kept.by' = 'ann')")
    harness.send(10)
    assert harness.run(landed, "third", spark).status == "done"


def test_a_replay_is_checked_again_before_it_is_committed(harness, landed, spark):
    """Re-created after it was read: what was read may be foreign; the rows stay (R4)."""

    def recreate():
        harness.delete()
        harness.create(partitions=1)
        harness.send(100, value=b"foreign")

    version = table_version(landed)
    with pytest.raises(ReplayUnavailable, match="is not the plan's"):
        harness.run(landed, "lands", HookedSpark(spark, after=recreate))
    assert table_version(landed) == version
    assert len(attempts(landed)) == 1


def attempts(stream):
    """Folders of attempts beside the table."""
    return list(folder_of(stream.table.uri).glob("landed-*"))


def test_a_shorter_replay_never_replaces_what_is_there(harness, landed, spark):
    """Counted before it is committed; what it wrote is deleted."""
    version = table_version(landed)
    with pytest.raises(ReplayUnavailable, match="99 offsets were read where the table holds 100"):
        harness.run(landed, "lands", LossySpark(spark, 1))
    assert table_version(landed) == version
    assert len(attempts(landed)) == 1


def test_a_replay_is_one_application_and_one_commit(harness, landed, spark):
    """Counted: a start of Spark, and a version of the table."""
    before, version = spark.submits, table_version(landed)
    harness.run(landed, "lands", spark)
    assert (spark.submits - before, table_version(landed) - version) == (1, 1)
    assert len(copies(landed)) == 100


def test_a_replay_of_rows_that_others_have_compacted(harness, landed, spark):
    """One file holds rows of several plans: those of the others stay as they are."""
    harness.send(50)
    harness.run(landed, "second", spark)
    harness.send(50)
    harness.run(landed, "third", spark)
    spark.session.sql(f"OPTIMIZE delta.`{landed.table.uri}`")
    before = table_rows(landed, "offset", "timestamp", "key", "value", "headers", "plan_id")
    assert len(DeltaTable(landed.table.uri).file_uris()) == 1
    assert harness.run(landed, "second", spark).status == "done"
    after = table_rows(landed, "offset", "timestamp", "key", "value", "headers", "plan_id")
    assert (after, len(copies(landed))) == (before, 200)
    seen = spark.session.read.format("delta").load(landed.table.uri)
    assert seen.where("offset >= 100 and offset < 150").count() == 50
    assert is_clean(harness, landed)


@pytest.mark.slow
def test_a_table_that_was_changed_under_a_frozen_plan_can_be_approved(harness, landed, spark):
    """Planning has not seen it; the plan goes on once somebody has."""
    harness.send(10)
    with open_run(landed, "frozen", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
    spark.session.sql(f"DELETE FROM delta.`{landed.table.uri}` WHERE offset < 40")
    assert halts(harness, landed, spark, "frozen") == ["table_changed"]
    assert halts(harness, landed, spark, "later") == ["table_changed"]
    decide(landed, "approve")
    record = harness.run(landed, "later", spark)
    assert spans(record) == [(0, 100, 110)]
    assert [i.decision.choice for i in record.resolved] == ["approve"]
    assert is_clean(harness, landed)


@pytest.mark.slow
def test_a_dry_run_tells_whether_a_run_would_halt(harness, landed, spark):
    """By findings, policies and decisions; it opens no incident."""
    harness.send(50)
    harness.delete_records(before=130)

    def dry(stream):
        with open_run(stream, "plan", RunRequest()) as run:
            return dry_run(run).halts

    lenient = landed.model_copy(
        update={"on_reset": landed.on_reset.model_copy(update={"retention_loss": "accept_loss"})}
    )
    assert (dry(landed), dry(lenient)) == (True, False)
    assert not open_ledger(landed).read().control.incidents
    halts(harness, landed, spark)
    decide(landed, "accept_loss")
    assert not dry(landed)
