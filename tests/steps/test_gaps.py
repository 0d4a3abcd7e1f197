"""Offsets without a row: evidence from the log, holes, and what may be done (R9)."""

import pytest

from tests.worlds.memory import spans
from tests.worlds.spark_doubles import LossySpark
from tests.worlds.streams import gap_reasons
from tideline.errors import ResetDetected
from tideline.model.offsets import total
from tideline.pipeline.steps import (
    advance_offsets,
    detect_earliest_reset,
    plan_offset_ranges,
    verify_ranges,
)


def test_without_aborted_records_to_hide_only_markers_are_missing(memory):
    """read_uncommitted readers get aborted records as rows."""
    memory.transaction(5)
    memory.transaction(5, commits=False)
    memory.configure(kafka={"topics": ["orders"], "isolation_level": "read_uncommitted"})
    assert gap_reasons(memory.run("run")) == {"marker": 2}
    assert len(memory.rows()) == 10


@pytest.mark.parametrize(
    ("gaps", "reasons"),
    [("explain", {"marker": 2, "aborted": 10}), ("transactional", {"transactional": 12})],
)
def test_aborted_records_stay_out_and_a_trailing_marker_ends_the_range(memory, gaps, reasons):
    """Neither policy needs a decision; a range of nothing else is a valid empty read."""
    memory.configure(gaps=gaps)
    memory.transaction(10)
    memory.transaction(10, commits=False)
    assert gap_reasons(memory.run("run")) == reasons
    memory.transaction(1, commits=False)
    record = memory.run("nothing")
    assert (record.status, record.verified[0].rows) == ("done", 0)
    assert memory.head == {("orders", 0): 24}
    assert memory.run("next").status == "nothing_to_do"
    assert memory.is_clean()


def test_refuse_admits_not_even_a_marker(memory):
    """It halts and moves nothing."""
    memory.configure(gaps="refuse")
    memory.transaction(1)
    with pytest.raises(ResetDetected, match="unexplained_gap"):
        memory.run("run")
    assert memory.head == {("orders", 0): 0}


def test_evidence_is_kept_when_it_expires_before_the_advance(memory):
    """Verified, then the log is gone, then the advance: nothing is unexplained."""
    memory.transaction(10)
    memory.transaction(10, commits=False)
    run = memory.commit("run")
    verify_ranges(run)
    memory.expire(22)
    advance_offsets(run)
    assert memory.head == {("orders", 0): 22}


def test_evidence_that_expired_before_anybody_looked_halts(memory):
    """The rows are there and stay; what is missing cannot be explained any more."""
    memory.transaction(10)
    memory.commit("run")
    memory.expire(11)
    with pytest.raises(ResetDetected, match=r"unexplained_gap.*can no longer be read"):
        memory.run("next")
    assert memory.head == {("orders", 0): 0}
    assert len(memory.rows()) == 10


@pytest.fixture
def halted(memory):
    """A landed plan that halted: the last 10 of 100 records of partition 0 have no row."""
    memory.grow(2)
    memory.send(100)
    memory.send(50, partition=1)
    memory.sparks = [lambda spark: LossySpark(spark, 10)]
    with pytest.raises(ResetDetected, match=r"unexplained_gap.*\[90, 100\)"):
        memory.run("halted")
    assert memory.incident.finding.offsets_at_stake == 10
    assert set(memory.head.values()) == {0}
    return memory


def test_a_reader_that_lost_records_is_found_by_counting(halted):
    """The log holds them; later runs attach to the incident and start no Spark."""
    submits, run = halted.submits, halted.open("later")
    plan_offset_ranges(run)
    with pytest.raises(ResetDetected, match="incident-1"):
        detect_earliest_reset(run)
    assert (halted.submits, len(halted.incidents)) == (submits, 1)


def test_the_halted_run_again_reads_its_range_once_more(halted):
    """The same plan; complete this time, which closes the incident."""
    assert spans(halted.run("halted")) == [(0, 0, 100), (1, 0, 50)]
    assert len(halted.rows()) == 150
    assert [i.outcome for i in halted.closed] == ["verified after all by run halted"]
    assert halted.is_clean()


def test_an_accepted_gap_verifies_the_rows_that_are_there(halted):
    """Nothing is read again; the loss is on record, with a name."""
    before = (halted.submits, halted.version)
    halted.decide("accept_loss", by="ann")
    record = halted.run("later")
    assert (record.status, record.plan.run_id) == ("done", "halted")
    assert (halted.submits, halted.version) == before
    assert list(halted.head.values()) == [100, 50]
    (incident,) = record.resolved
    assert (incident.decision.by, incident.outcome) == ("ann", "lost: [90, 100): 10 offsets")
    found, _ = halted.audit()
    assert (found.clean, found.rows) == (True, 140)


def test_a_policy_may_accept_a_gap_at_once(memory):
    """on_reset.unexplained_gap: accept_loss; decided by policy, and recorded as such."""
    memory.send(100)
    memory.configure(on_reset={"unexplained_gap": "accept_loss"})
    memory.sparks = [lambda spark: LossySpark(spark, 10)]
    assert memory.run("run").status == "done"
    assert memory.head == {("orders", 0): 100}
    assert total(r for _, r in memory.ledger().read().head.accepted_loss.pieces) == 10
    assert [i.decision.by for i in memory.closed] == ["policy"]


def test_healthy_partitions_proceed_beside_a_gap(halted):
    """on_incident: proceed: partition 1 is verified from what has landed, and goes on."""
    halted.send(5, partition=1)
    halted.send(7)
    halted.configure(on_incident="proceed")
    assert spans(halted.run("later")) == [(1, 50, 55)]
    assert list(halted.head.values()) == [0, 55]
    assert len(halted.incidents) == 1
    assert halted.run("halted").status == "superseded"
    submits = halted.submits
    halted.decide("accept_loss")
    assert spans(halted.run("decided")) == [(0, 100, 107)]
    assert halted.submits == submits + 1
    assert list(halted.head.values()) == [107, 55]
    found, _ = halted.audit()
    assert (found.clean, found.rows) == (True, 152)
