"""Table and ledger go back together, and forward again (0012)."""

import pytest
from deltalake import DeltaTable
from kafka import KafkaProducer

from tests.worlds.streams import (
    closed_incidents,
    commit_only,
    head,
    spans,
    table_rows,
    table_version,
)
from tideline import failpoints
from tideline.errors import BadInput, Halted, ReplayUnavailable, ResetDetected, StreamBusy
from tideline.model.request import RunRequest
from tideline.operations import rewind as rewinding
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.table.schema import COLUMNS
from tideline.wiring import open_ledger, open_run

CONTENT = tuple(name for name in COLUMNS if name != "plan_id")


def clean(harness, stream):
    found, findings = harness.audit(stream)
    return found.clean and not findings


def rewind(stream, spark, to_run, reason="wrong filter", **asked):
    """As `tideline rewind` does."""
    with open_run(stream, "rewind", RunRequest(), spark) as run:
        return rewind_stream(run, RewindRequest(to_run, reason, "ann", **asked))


def lands(harness, stream, spark, *run_ids, count=50):
    """Runs with new records each, in two partitions."""
    for number, run_id in enumerate(run_ids):
        harness.send(count, partition=number % 2, value=run_id.encode())
        harness.run(stream, run_id, spark)


@pytest.fixture
def pair(harness, spark):
    """A stream with two runs of 50 rows each, in a partition each."""
    harness.create(partitions=2)
    stream = harness.stream()
    lands(harness, stream, spark, "one", "two")
    return stream


def test_three_runs_back_and_forward_again_is_the_same_table(harness, pair, spark):
    """Row by row in every column but the plan's id; the audit is clean at every stage."""
    four = pair
    lands(harness, four, spark, "three", "four")
    before, positions = table_rows(four, *CONTENT), head(four)
    assert clean(harness, four)
    done = rewind(four, spark, "one")
    assert (done.rows, done.undone_runs, done.lost) == (150, ("two", "three", "four"), ())
    assert done.removed_in_version == table_version(four)
    assert table_rows(four, *CONTENT) == [r for r in before if r[8] == b"one"]
    assert clean(harness, four)
    assert harness.run(four, "again", spark).status == "done"
    assert (table_rows(four, *CONTENT), head(four)) == (before, positions)
    assert clean(harness, four)
    assert harness.run(four, "idle", spark).status == "nothing_to_do"


@pytest.mark.slow
def test_an_undone_run_cleared_is_planned_anew(harness, pair, spark):
    """With rows, a notice, and a plan of its own, which can be undone and gone back to (R3)."""
    before = table_rows(pair, *CONTENT)
    undone = open_ledger(pair).find_run("two").plan.plan_id
    rewind(pair, spark, "one")
    with pytest.raises(BadInput, match=r"'two': rewind-1 has undone it; allowed.*: one$"):
        rewind(pair, spark, "two")
    assert rewind(pair, spark, "one") is None
    (only,) = open_ledger(pair).rewinds()
    assert (only.rewind_id, only.by, only.reason) == ("rewind-1", "ann", "wrong filter")
    record = harness.run(pair, "two", spark)
    assert (record.status, record.replaces) == ("done", undone)
    assert {n.kind for n in record.notices} == {"planned_anew"}
    assert (table_rows(pair, *CONTENT), clean(harness, pair)) == (before, True)
    lands(harness, pair, spark, "three")
    assert rewind(pair, spark, "two").undone_runs == ("three",)
    assert rewind(pair, spark, "one").undone_runs == ("two",)
    assert (len(table_rows(pair)), clean(harness, pair)) == (50, True)


@pytest.mark.slow
def test_a_run_nobody_knows_is_refused_with_what_is_allowed(pair, spark):
    """Newest first; without a reason nothing is rewound either."""
    with pytest.raises(BadInput, match=r"'five': no such run; allowed.*: two, one$"):
        rewind(pair, spark, "five")
    with pytest.raises(BadInput, match="--reason"):
        rewind(pair, spark, "one", reason=" ")


@pytest.mark.slow
def test_a_replay_keeps_the_run_where_it_first_closed(harness, pair, spark):
    """Clearing an old run rewrites its record, and moves nothing in the order of runs."""
    harness.run(pair, "one", spark)
    assert rewind(pair, spark, "one").undone_runs == ("two",)
    assert clean(harness, pair)


@pytest.mark.slow
def test_backfills_of_later_are_undone_and_what_they_read_again_stays(harness, spark):
    """By offsets, whichever lane landed them; forward again all is as it was."""
    topic = harness.create(partitions=1)
    harness.send(100)
    stream = harness.stream(start={"offsets": {topic: {0: 50}}})
    harness.run(stream, "one", spark)
    place = {"topic": topic, "partition": 0}
    ranges = [{**place, "start_offset": 20, "end_offset": 70}]
    harness.run(stream, "back", spark, ranges=ranges)
    assert (len(table_rows(stream)), clean(harness, stream)) == (80, True)
    done = rewind(stream, spark, "one")
    assert (done.rows, done.undone_runs) == (30, ("back",))
    assert [offset for *_, offset in table_rows(stream)] == list(range(50, 100))
    assert clean(harness, stream)
    assert spans(harness.run(stream, "back", spark, ranges=ranges)) == [(0, 20, 70)]
    assert (len(table_rows(stream)), clean(harness, stream)) == (80, True)


def test_rows_of_an_open_plan_go_too(harness, pair, spark):
    """Committed and never advanced: undone with the runs that follow."""
    harness.send(10)
    commit_only(pair, "three", spark)
    assert rewind(pair, spark, "two").rows == 10
    assert len(table_rows(pair)) == 100
    assert spans(harness.run(pair, "three", spark)) == [(0, 50, 60)]
    assert harness.run(pair, "four", spark).status == "nothing_to_do"
    assert (len(table_rows(pair)), clean(harness, pair)) == (110, True)


def test_what_kafka_cannot_give_back_is_refused(harness, pair, spark):
    """Naming partition, offsets and rows; table, ledger and runs are as they were."""
    harness.delete_records(before=20, partition=1)
    state = (table_version(pair), open_ledger(pair).read().head)
    with pytest.raises(ReplayUnavailable, match=r"-1 \[0, 20\): 20 rows") as refused:
        rewind(pair, spark, "one")
    (lost,) = refused.value.lost
    assert (lost.rows, lost.planned.start_offset, lost.planned.end_offset) == (20, 0, 20)
    assert (table_version(pair), open_ledger(pair).read().head) == state
    assert open_ledger(pair).rewinds() == []
    assert clean(harness, pair)


@pytest.mark.slow
def test_a_compacted_topic_may_not_give_everything_back(harness, spark):
    """Log start and end show nothing of it: refused, unless the loss is accepted."""
    harness.create(partitions=1, **{"cleanup.policy": "compact"})
    producer = KafkaProducer(bootstrap_servers=harness.broker.bootstrap_servers)
    stream = harness.stream()
    for run_id in ("one", "two"):
        producer.send(harness.topic(), run_id.encode(), key=b"key", partition=0)
        producer.flush()
        harness.run(stream, run_id, spark)
    producer.close()
    with pytest.raises(ReplayUnavailable, match=r"\[1, 2\): 1 rows \(the topic is compacted"):
        rewind(stream, spark, "one")
    assert rewind(stream, spark, "one", accept_loss=True).lost_rows == 1
    assert head(stream) == {(harness.topic(), 0): 1}


@pytest.mark.slow
def test_an_accepted_loss_is_recorded_and_asked_about_once(harness, pair, spark):
    """The position moves over what is gone; the audit knows, and the next run reads the rest."""
    before = table_rows(pair)
    harness.delete_records(before=20, partition=1)
    done = rewind(pair, spark, "one", accept_loss=True)
    assert (done.rows, done.lost_rows) == (50, 20)
    assert head(pair) == {(harness.topic(), 0): 50, (harness.topic(), 1): 20}
    assert clean(harness, pair)
    harness.run(pair, "again", spark)
    assert clean(harness, pair)
    assert set(before) - set(table_rows(pair)) == {(harness.topic(), 1, n) for n in range(20)}
    assert rewind(pair, spark, "again") is None


@pytest.mark.parametrize("place", ["rewind:begun", "rewind:removed", "rewind:finished"])
def test_a_rewind_that_dies_is_finished_by_the_same_command(
    harness, pair, spark, monkeypatch, place
):
    """Until then everybody else is kept out, with what to do; afterwards nothing tells."""

    class Died(Exception):
        pass

    def die(reached):
        if reached == place:
            raise Died

    monkeypatch.setattr(rewinding, "reach", die)
    with pytest.raises(Died):
        rewind(pair, spark, "one")
    monkeypatch.setattr(rewinding, "reach", failpoints.reach)
    unfinished = place != "rewind:finished"
    if unfinished:
        with pytest.raises(Halted, match=r"rewind-1 to run one was begun .* same tideline rewind"):
            harness.run(pair, "three", spark)
        assert open_ledger(pair).rewinds()[0].finished_at is None
    finished = rewind(pair, spark, "one")
    assert (finished is not None) == unfinished
    (only,) = open_ledger(pair).rewinds()
    assert (only.rows, only.undone_runs) == (50, ("two",))
    assert only.finished_at is not None
    assert len(table_rows(pair)) == 50
    assert clean(harness, pair)
    assert spans(harness.run(pair, "again", spark)) == [(1, 0, 50)]
    assert clean(harness, pair)


@pytest.mark.slow
def test_another_rewind_finishes_the_one_before_it(harness, pair, spark, monkeypatch):
    """Then it does its own."""
    lands(harness, pair, spark, "three")
    monkeypatch.setattr(rewinding, "_remove", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        rewind(pair, spark, "two")
    monkeypatch.undo()
    assert rewind(pair, spark, "one").undone_runs == ("two",)
    assert [r.undone_runs for r in open_ledger(pair).rewinds()] == [("three",), ("two",)]
    assert len(table_rows(pair)) == 50
    assert clean(harness, pair)


@pytest.mark.slow
def test_a_run_that_was_stopped_meanwhile_moves_nothing(harness, pair, spark):
    """Its lease ran out, the stream was rewound; what it writes to the ledger is refused (R5)."""
    stale = open_ledger(pair)
    with stale.lease("backfill"):
        open_ledger(pair).update(lambda s: s.without_lease("backfill", stale.holder))
        rewind(pair, spark, "one")
        with pytest.raises(StreamBusy, match="rewound"):
            stale.update(lambda s: s.with_next_token())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["live", "backfill", "writer"])
def test_nothing_is_rewound_while_somebody_is_at_work(pair, spark, name):
    """Of any lane."""
    with open_ledger(pair).lease(name), pytest.raises(StreamBusy, match=name):
        rewind(pair, spark, "one")
    assert open_ledger(pair).rewinds() == []


@pytest.mark.slow
def test_proposals_and_later_incidents_are_gone(harness, pair, spark):
    """What is still there is found again, as an incident of its own."""
    harness.delete("orders")
    with pytest.raises(ResetDetected):
        harness.run(pair, "halted", spark)
    assert list(open_ledger(pair).read().runs) == ["halted"]
    rewind(pair, spark, "one", accept_loss=True)
    state = open_ledger(pair).read()
    assert (state.runs, state.control.incidents) == ({}, ())
    assert "rewind-1" in closed_incidents(pair)[-1].outcome
    with pytest.raises(ResetDetected, match="topic_missing"):
        harness.run(pair, "halted", spark)
    assert open_ledger(pair).read().control.incidents[0].incident_id == "incident-2"


@pytest.mark.slow
def test_a_table_that_somebody_changed_is_settled_first(harness, pair, spark):
    """A rewind writes to it, so it asks the same question as a run does (R13)."""
    spark.session.sql(f"DELETE FROM delta.`{pair.table.uri}` WHERE offset = 3")
    with pytest.raises(ResetDetected, match="table_changed"):
        rewind(pair, spark, "one")
    assert open_ledger(pair).rewinds() == []


@pytest.mark.slow
def test_files_that_vacuum_and_optimize_left_do_not_matter(harness, pair, spark):
    """Rows are removed, no old version is restored (0012)."""
    before = table_rows(pair, *CONTENT)
    spark.session.sql(f"OPTIMIZE delta.`{pair.table.uri}`")
    DeltaTable(pair.table.uri).vacuum(0, dry_run=False, enforce_retention_duration=False)
    assert rewind(pair, spark, "one").rows == 50
    harness.run(pair, "again", spark)
    assert table_rows(pair, *CONTENT) == before
    assert clean(harness, pair)
