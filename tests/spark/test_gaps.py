"""Offsets without a row: evidence from the log, holes, and what may be done (R9)."""

import pytest

from tests.worlds.spark_doubles import LossySpark
from tests.worlds.streams import (
    closed_incidents,
    commit_only,
    decide,
    gap_reasons,
    head,
    spans,
    table_rows,
    table_version,
)
from tideline.errors import ResetDetected
from tideline.model.offsets import total
from tideline.model.request import RunRequest
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)
from tideline.wiring import open_ledger, open_run


def test_markers_and_aborted_records_are_shown_by_the_log(harness, spark):
    """gaps: explain, the default, needs no policy for transactions."""
    name = harness.create(partitions=1)
    harness.transactions(
        (b"kept", 10, True), (b"aborted", 10, False), (b"kept", 10, True), (b"no", 10, False)
    )
    stream = harness.stream()
    record = harness.run(stream, "run", spark)
    assert gap_reasons(record) == {"marker": 4, "aborted": 20}
    assert head(stream) == {(name, 0): 44}
    assert {value for (value,) in table_rows(stream, "value")} == {b"kept"}
    found, findings = harness.audit(stream)
    assert (found.clean, findings) == (True, ())


@pytest.mark.slow
def test_without_aborted_records_to_hide_only_markers_are_missing(harness, spark):
    """read_uncommitted readers get aborted records as rows."""
    harness.create(partitions=1)
    harness.transactions((b"kept", 5, True), (b"aborted", 5, False))
    stream = harness.stream(
        kafka={"topics": [harness.topic()], "isolation_level": "read_uncommitted"}
    )
    record = harness.run(stream, "run", spark)
    assert gap_reasons(record) == {"marker": 2}
    assert len(table_rows(stream)) == 10


@pytest.mark.slow
def test_refuse_admits_not_even_a_marker(harness, spark):
    """It halts and moves nothing."""
    name = harness.create(partitions=1)
    harness.transactions((b"x", 1, True))
    stream = harness.stream(gaps="refuse")
    with pytest.raises(ResetDetected, match="unexplained_gap"):
        harness.run(stream, "run", spark)
    assert head(stream) == {(name, 0): 0}


def test_evidence_is_kept_when_it_expires_before_the_advance(harness, spark):
    """Verified, then the log is gone, then the advance: nothing is unexplained."""
    name = harness.create(partitions=1)
    harness.transactions((b"x", 10, True), (b"y", 10, False))
    stream = harness.stream()
    commit_only(stream, "run", spark)
    with open_run(stream, "run", RunRequest(), spark) as run:
        verify_ranges(run)
        harness.delete_records(before=22)
        advance_offsets(run)
    assert head(stream) == {(name, 0): 22}


@pytest.mark.slow
def test_evidence_that_expired_before_anybody_looked_halts(harness, spark):
    """The rows are there and stay; what is missing cannot be explained any more."""
    name = harness.create(partitions=1)
    harness.transactions((b"x", 10, True))
    stream = harness.stream()
    commit_only(stream, "run", spark)
    harness.delete_records(before=11)
    with pytest.raises(ResetDetected, match=r"unexplained_gap.*can no longer be read"):
        harness.run(stream, "next", spark)
    assert head(stream) == {(name, 0): 0}
    assert len(table_rows(stream)) == 10


@pytest.fixture
def halted(harness, spark):
    """A landed plan that halted: the last 10 of 100 records of partition 0 have no row."""
    harness.create(partitions=2)
    harness.send(100)
    harness.send(50, partition=1)
    stream = harness.stream()
    with pytest.raises(ResetDetected, match=r"unexplained_gap.*\[90, 100\)") as found:
        harness.run(stream, "halted", LossySpark(spark, 10))
    (incident,) = found.value.incidents
    assert incident.finding.offsets_at_stake == 10
    assert set(head(stream).values()) == {0}
    return stream


def test_a_reader_that_lost_records_is_found_by_counting(harness, halted, spark):
    """The log holds them; later runs attach to the incident and start no Spark."""
    submits = spark.submits
    with open_run(halted, "later", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        with pytest.raises(ResetDetected, match="incident-1"):
            detect_earliest_reset(run)
    assert spark.submits == submits
    assert len(open_ledger(halted).read().control.incidents) == 1


@pytest.mark.slow
def test_the_halted_run_again_reads_its_range_once_more(harness, halted, spark):
    """The same plan; complete this time, which closes the incident."""
    assert spans(harness.run(halted, "halted", spark)) == [(0, 0, 100), (1, 0, 50)]
    assert len(table_rows(halted)) == 150
    (incident,) = closed_incidents(halted)
    assert incident.outcome == "verified after all by run halted"
    assert harness.audit(halted)[0].clean


def test_an_accepted_gap_verifies_the_rows_that_are_there(harness, halted, spark):
    """Nothing is read again; the loss is on record, with a name."""
    name, version = harness.topic(), table_version(halted)
    decide(halted, "accept_loss", by="ann")
    submits = spark.submits
    record = harness.run(halted, "later", spark)
    assert (record.status, record.plan.run_id) == ("done", "halted")
    assert (spark.submits, table_version(halted)) == (submits, version)
    assert head(halted) == {(name, 0): 100, (name, 1): 50}
    (incident,) = record.resolved
    assert (incident.decision.by, incident.outcome) == ("ann", "lost: [90, 100): 10 offsets")
    found, _ = harness.audit(halted)
    assert (found.clean, found.rows) == (True, 140)


@pytest.mark.slow
def test_a_policy_may_accept_a_gap_at_once(harness, spark):
    """on_reset.unexplained_gap: accept_loss; decided by policy, and recorded as such."""
    name = harness.create(partitions=1)
    harness.send(100)
    stream = harness.stream(on_reset={"unexplained_gap": "accept_loss"})
    record = harness.run(stream, "run", LossySpark(spark, 10))
    assert record.status == "done"
    assert head(stream) == {(name, 0): 100}
    assert (
        total(r for c in open_ledger(stream).read().head.accepted_loss for r in c.intervals) == 10
    )
    (incident,) = closed_incidents(stream)
    assert incident.decision.by == "policy"


def test_healthy_partitions_proceed_beside_a_gap(harness, halted, spark):
    """on_incident: proceed: partition 1 is verified from what has landed, and goes on."""
    name = harness.topic()
    harness.send(5, partition=1)
    harness.send(7, partition=0)
    proceeding = halted.model_copy(update={"on_incident": "proceed"})
    record = harness.run(proceeding, "later", spark)
    assert spans(record) == [(1, 50, 55)]
    assert head(halted) == {(name, 0): 0, (name, 1): 55}
    assert len(open_ledger(halted).read().control.incidents) == 1
    assert harness.run(proceeding, "halted", spark).status == "superseded"
    submits = spark.submits
    decide(halted, "accept_loss")
    record = harness.run(proceeding, "decided", spark)
    assert spans(record) == [(0, 100, 107)]
    assert spark.submits == submits + 1
    assert head(halted) == {(name, 0): 107, (name, 1): 55}
    found, _ = harness.audit(halted)
    assert (found.clean, found.rows) == (True, 152)
