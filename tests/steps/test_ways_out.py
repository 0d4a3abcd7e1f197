"""From every halt some action leads on, and no row that is in the table is lost on the way."""

from dataclasses import replace

import pytest

from tests.texts import ONE_TOO_MANY
from tests.worlds.memory import one_range, spans
from tests.worlds.spark_doubles import HookedSpark, LossySpark
from tideline.errors import BadInput, ResetDetected, VerificationFailed
from tideline.landing import proof as log_checks
from tideline.model.incident import Finding
from tideline.pipeline.resolve_reset import ask
from tideline.pipeline.steps import advance_offsets, verify_ranges


@pytest.fixture
def verified(landed):
    """A run of ten more records that stands between verifying and advancing."""
    landed.send(10)
    run = landed.commit("verified")
    verify_ranges(run)
    return run


def test_a_delete_by_others_after_verifying_is_noticed(landed, verified):
    """The advance counts no row again: it holds the table's newer commits against the ledger."""
    landed.delete_rows(lambda offset: offset >= 100)
    with pytest.raises(ResetDetected, match="table_changed"):
        advance_offsets(verified)
    assert landed.head == {("orders", 0): 100}


def test_an_approved_removal_of_rows_that_are_not_advanced_yet_is_read_again(landed, verified):
    """What was verified before the approval counts for nothing after it."""
    landed.delete_rows(lambda offset: offset >= 100)
    with pytest.raises(ResetDetected, match="table_changed"):
        advance_offsets(verified)
    landed.decide("approve")
    assert landed.run("verified").status == "done"
    assert landed.offsets() == list(range(110))
    assert landed.is_clean()


def test_a_verified_commit_that_vanished_is_told_to_every_run(landed):
    """A backfill's, before its advance: the live lane does not take its incident for gone."""
    landed.send(10)
    back = landed.commit("back", **one_range(100, 110))
    verify_ranges(back)
    newest = landed.table.versions[-1]
    landed.table.versions[-1] = replace(landed.table.versions[-2], tokens=newest.tokens)
    with pytest.raises(ResetDetected, match="have vanished from the table"):
        advance_offsets(back)
    with pytest.raises(ResetDetected, match="have vanished from the table"):
        landed.run("live")
    landed.decide("approve")
    assert landed.run("back", **one_range(100, 110)).status == "done"
    landed.run("live")
    assert (landed.offsets(), landed.is_clean()) == (list(range(110)), True)


def test_a_verification_that_fails_takes_an_earlier_one_back(landed, verified):
    """Nobody advances by what was true an hour ago."""
    rows = landed.table.rows()
    copied = next(row for row in rows if row.offset == 105)
    landed.table.add_foreign([*rows, copied], "WRITE", removes_rows=False)
    with pytest.raises(VerificationFailed, match=ONE_TOO_MANY):
        verify_ranges(verified)
    with pytest.raises(BadInput, match="not verified"):
        advance_offsets(verified)
    assert landed.head == {("orders", 0): 100}


def test_a_commit_that_nobody_has_verified_is_not_advanced(landed):
    """Read again since: the newest commit counts, not the one that was verified."""
    run = landed.commit("lands")
    with pytest.raises(BadInput, match="not verified"):
        advance_offsets(run)
    commit, _ = verify_ranges(run)
    assert advance_offsets(run).table_commit == commit
    assert landed.is_clean()


def test_verifying_itself_notices_a_delete_by_others(landed):
    """Before anything relies on the newer version, and not only when the head moves."""
    landed.send(10)
    run = landed.commit("halted")
    landed.delete_rows(lambda offset: offset < 40)
    with pytest.raises(ResetDetected, match="table_changed"):
        verify_ranges(run)


def test_a_delete_while_spark_was_reading_halts_before_the_commit(landed):
    """R13: the head takes no version for known that it has not looked at."""
    landed.send(10)
    delete = lambda: landed.delete_rows(lambda offset: offset < 40)  # noqa: E731
    landed.sparks = [lambda spark: HookedSpark(spark, before=delete)]
    with pytest.raises(ResetDetected, match="table_changed"):
        landed.run("halted")
    assert landed.head == {("orders", 0): 100}
    assert landed.offsets() == list(range(40, 100))
    landed.decide("approve")
    record = landed.run("halted")
    assert record.status == "done"
    assert "40 verified offsets" in record.resolved[0].outcome
    assert landed.is_clean()


def test_an_incident_that_has_gone_by_costs_no_second_reading(landed, monkeypatch):
    """Rights were taken away and given back: the rows verify, though Kafka has lost them since."""
    landed.send(10)
    run = landed.commit("landed")
    refused = Finding("unknown", "an answer", "AuthorizationError", "orders", None, 0)
    with monkeypatch.context() as rights:
        rights.setattr(log_checks, "changes_after_read", lambda *_: (refused,))
        with pytest.raises(ResetDetected, match="unknown"):
            verify_ranges(run)
    landed.send(5)
    landed.expire(110)
    submits = landed.submits
    assert spans(landed.run("later")) == [(0, 110, 115)]
    assert landed.submits == submits + 1
    assert landed.offsets() == list(range(115))
    assert [i.outcome for i in landed.closed] == ["verified after all by run later"]
    assert landed.is_clean()


def test_evidence_is_kept_when_a_run_halts(memory):
    """One marker, one real gap; the marker's batch expires before somebody decides."""
    memory.transaction(10)
    memory.send(20)
    memory.sparks = [lambda spark: LossySpark(spark, 5)]
    with pytest.raises(ResetDetected, match="unexplained_gap"):
        memory.run("halted")
    memory.expire(20)
    memory.decide("accept_loss")
    assert memory.run("later").status == "done"
    assert memory.head == {("orders", 0): 31}
    assert len(memory.rows()) == 25
    assert memory.is_clean()


def test_a_table_that_is_back_needs_no_decision(landed):
    """Gone under a frozen plan, restored from a copy: nobody is asked, the plan goes on."""
    landed.send(10)
    landed.freeze("frozen")
    copy = (landed.table.table_id, landed.table.versions)
    landed.table.table_id, landed.table.versions = None, []
    with pytest.raises(ResetDetected, match="table_changed"):
        landed.run("frozen")
    landed.table.table_id, landed.table.versions = copy
    assert ask(landed.open("frozen")) == ()
    assert landed.run("frozen").status == "done"
    assert not landed.incidents
    assert landed.is_clean()


@pytest.fixture
def gaps(memory):
    """Two of three partitions have lost ten records each on the way; the third one waits."""
    memory.grow(3)
    memory.configure(on_incident="proceed")
    for partition in range(3):
        memory.send(50, partition)
    memory.sparks = [lambda spark: LossySpark(spark, 10, partitions=(0, 1))]
    with pytest.raises(ResetDetected) as halted:
        memory.run("halted")
    assert [i.finding.kind for i in halted.value.incidents] == ["unexplained_gap"] * 2
    return memory


def test_two_gaps_of_one_plan_are_decided_together(gaps):
    """Each is verified for itself, and the ledger forgets neither."""
    gaps.run("healthy")
    assert list(gaps.head.values()) == [0, 0, 50]
    for incident in gaps.incidents:
        gaps.decide("accept_loss", incident.incident_id)
    gaps.run("decided")
    assert list(gaps.head.values()) == [50, 50, 50]
    covered = gaps.ledger().read().head.coverage
    assert [(log.partition, str(r)) for log, r in covered.pieces] == [
        (partition, "[0, 50)") for partition in range(3)
    ]
    found, findings = gaps.audit()
    assert (found.clean, found.rows, findings) == (True, 130, ())


def test_one_of_two_gaps_decided_does_not_stop_the_healthy(gaps):
    """on_incident: proceed: the other one stays open, and out of the way."""
    gaps.decide("accept_loss", "incident-1")
    gaps.run("later")
    assert list(gaps.head.values()) == [50, 0, 50]
    assert [i.incident_id for i in gaps.incidents] == ["incident-2"]
