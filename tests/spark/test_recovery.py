"""What a crashed run leaves open, and how the next one recovers it (R1, R3, R5)."""

import sys
from dataclasses import replace

import pytest

from tests.worlds.streams import commit_only, freeze_only, head, spans, table_rows, table_version
from tideline.errors import AttemptFenced, ResetDetected, StreamBusy
from tideline.landing.attempts import Attempt
from tideline.model.request import RunRequest
from tideline.operations.reading import dry_run
from tideline.pipeline.freezing import freeze_run
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.proposing import stable_proposal
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges
from tideline.wiring import open_ledger, open_run


@pytest.fixture
def stream(harness):
    """A stream of one topic with 100 records waiting."""
    harness.create(partitions=1)
    harness.send(100)
    return harness.stream()


def test_a_frozen_plan_is_executed_as_it_is(harness, stream, spark):
    """The end of the log is never asked for twice (R1)."""
    freeze_only(stream, "a", spark)
    harness.send(50)
    assert spans(harness.run(stream, "a", spark)) == [(0, 0, 100)]


@pytest.mark.slow
def test_a_run_that_died_before_it_froze_is_planned_anew(harness, stream, spark):
    """A proposal binds nobody."""
    with open_run(stream, "a", RunRequest(), spark) as run:
        plan_offset_ranges(run)
    harness.send(50)
    with open_run(stream, "b", RunRequest(), spark) as run:
        plan_offset_ranges(run)
    assert spans(harness.run(stream, "a", spark)) == [(0, 0, 150)]


def test_the_same_run_finishes_what_it_committed_without_reading(harness, stream, spark):
    """The table proves the rows."""
    commit_only(stream, "a", spark)
    submits, version = spark.submits, table_version(stream)
    assert harness.run(stream, "a", spark).status == "done"
    assert (spark.submits, table_version(stream)) == (submits, version)
    assert len(table_rows(stream)) == 100


def test_the_next_run_finishes_what_another_committed_and_goes_on(harness, stream, spark):
    """The open plan is verified and advanced, then the new range is planned behind it."""
    commit_only(stream, "a", spark)
    harness.send(50)
    assert spans(harness.run(stream, "b", spark)) == [(0, 100, 150)]
    assert open_ledger(stream).find_run("a").status == "done"
    found, _ = harness.audit(stream)
    assert found.clean
    assert found.rows == 150


@pytest.mark.slow
def test_the_next_run_finishes_a_plan_that_was_never_read(harness, stream, spark):
    """It executes that plan, not one of its own; the rest is the next run's."""
    frozen = freeze_only(stream, "a", spark)
    harness.send(50)
    finished = harness.run(stream, "b", spark)
    assert finished.plan.plan_id == frozen.plan.plan_id
    assert open_ledger(stream).find_run("a").status == "done"
    assert spans(harness.run(stream, "c", spark)) == [(0, 100, 150)]
    assert harness.run(stream, "a", spark).status == "done"
    assert len(table_rows(stream)) == 150


def test_a_plan_that_can_no_longer_be_read_is_superseded(harness, stream, spark):
    """Rows below the log start are gone; the next run says so, the old one ends green."""
    freeze_only(stream, "a", spark)
    harness.delete_records(before=40)
    with pytest.raises(ResetDetected, match=r"\[0, 40\)"):
        harness.run(stream, "b", spark)
    assert harness.run(stream, "a", spark).status == "superseded"


def test_rows_that_are_in_the_table_are_never_reported_lost(harness, stream, spark):
    """Committed, then expired before the advance: recovered from the table."""
    commit_only(stream, "a", spark)
    harness.delete_records(before=100)
    harness.send(10)
    assert spans(harness.run(stream, "b", spark)) == [(0, 100, 110)]


@pytest.mark.slow
def test_a_commit_whose_rows_were_taken_away_proves_nothing(harness, stream, spark):
    """The mark is still in the history; the rows are counted, and the head stays."""
    commit_only(stream, "a", spark)
    spark.session.sql(f"DELETE FROM delta.`{stream.table.uri}` WHERE offset < 10")
    harness.send(5)
    harness.run(stream, "b", spark)
    assert len(table_rows(stream)) == 100
    assert harness.run(stream, "c", spark).status == "done"
    assert len(table_rows(stream)) == 105


def test_two_runs_cannot_freeze_over_each_other(harness, stream, spark):
    """Airflow lets a manual run in between another run's tasks."""
    with (
        open_run(stream, "a", RunRequest(), spark) as a,
        open_run(stream, "b", RunRequest(), spark) as b,
    ):
        plan_offset_ranges(a)
        detect_earliest_reset(a)
        plan_offset_ranges(b)
        assert detect_earliest_reset(b).finishes == "a"


@pytest.mark.slow
def test_two_that_looked_at_once_do_not_both_freeze(harness, stream, spark):
    """The second one's look is from before the first one's plan."""
    with (
        open_run(stream, "a", RunRequest(), spark) as a,
        open_run(stream, "b", RunRequest(), spark) as b,
    ):
        plan_offset_ranges(a)
        known, record = a.snapshot()
        state, proposal, _ = stable_proposal(a, known, record)
        b.ledger.update(lambda s: s.with_run(replace(record, run_id="b")))
        freeze_run(b, state, proposal, lambda head: head)
        with pytest.raises(StreamBusy):
            freeze_run(a, state, proposal, lambda head: head)


@pytest.mark.slow
def test_a_proposal_that_another_run_replaced_is_made_again(harness, stream, spark):
    """Whoever detects second recovers what the first one froze."""
    with open_run(stream, "a", RunRequest(), spark) as a:
        plan_offset_ranges(a)
        with open_run(stream, "b", RunRequest(), spark) as b:
            plan_offset_ranges(b)
            detect_earliest_reset(b)
        assert detect_earliest_reset(a).finishes == "b"


@pytest.mark.slow
def test_looking_and_auditing_recover_nothing_but_know_what_landed(harness, stream, spark):
    """Committed, not advanced, expired since: no loss for `plan` and `audit` either."""
    commit_only(stream, "a", spark)
    harness.delete_records(before=100)
    with open_run(stream, "x", RunRequest(), spark) as run:
        dry = dry_run(run)
    assert (dry.proposal.ranges, dry.findings) == ((), ())
    found, findings = harness.audit(stream)
    assert (found.clean, findings, len(found.unverified)) == (True, (), 1)
    assert head(stream) == {(harness.topic(), 0): 0}


def older_attempt(run, ledger_id):
    """An attempt whose token is not larger than the table's."""
    state = run.ledger.read()
    return Attempt(replace(state, control=replace(state.control, token=0)))


@pytest.mark.connect_too
def test_an_older_attempt_publishes_nothing(harness, stream, spark, monkeypatch):
    """Its token is not larger than the table's, and that is noticed before the commit."""
    commit_only(stream, "a", spark)

    with open_run(stream, "b", RunRequest(), spark) as run:
        harness.send(10)
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        version = table_version(stream)
        monkeypatch.setattr(sys.modules[ingest_ranges.__module__], "begin_attempt", older_attempt)
        with pytest.raises(AttemptFenced):
            ingest_ranges(run)
    assert table_version(stream) == version
    assert head(stream)[(harness.topic(), 0)] == 100


def test_an_older_replay_publishes_nothing(harness, stream, spark, monkeypatch):
    """The newer copy stays."""
    harness.run(stream, "a", spark)
    version = table_version(stream)

    with open_run(stream, "a", RunRequest(), spark) as run:
        monkeypatch.setattr(sys.modules[ingest_ranges.__module__], "begin_attempt", older_attempt)
        with pytest.raises(AttemptFenced):
            ingest_ranges(run)
    assert table_version(stream) == version


@pytest.mark.slow
def test_a_run_id_stands_for_one_stream_s_plan(harness, stream, spark):
    """Two streams may use the same run id; their plans differ."""
    second = harness.stream(name="second")
    one = harness.run(stream, "same", spark)
    two = harness.run(second, "same", spark)
    assert one.plan.plan_id != two.plan.plan_id
