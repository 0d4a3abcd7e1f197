"""A topic that the stream file does not mean any more: rows, plans, incidents, rewinds."""

import pytest

from tests.worlds.streams import closed_incidents, decide, halts, head, is_clean, table_rows
from tideline.errors import ResetDetected
from tideline.model.request import RunRequest
from tideline.operations.rewind import RewindRequest, rewind_stream
from tideline.pipeline.ingest_ranges import ingest_ranges
from tideline.pipeline.steps import detect_earliest_reset, plan_offset_ranges, verify_ranges
from tideline.wiring import open_ledger, open_run

pytestmark = pytest.mark.slow


@pytest.fixture
def names(harness, spark):
    """Two topics with five landed records each."""
    names = [harness.create(suffix, partitions=1) for suffix in ("a", "b")]
    send(harness, 5)
    harness.run(harness.stream(topics=("a", "b")), "first", spark)
    return names


def send(harness, count):
    for suffix in ("a", "b"):
        harness.send(count, suffix)


def landed(stream):
    """Rows by topic; a second copy would show."""
    rows = table_rows(stream, "topic", "topic_id", "generation", "partition", "offset")
    assert len(set(rows)) == len(rows)
    return {name: sum(r[0] == name for r in rows) for name in {r[0] for r in rows}}


def doubt(harness, stream, spark):
    """Topic b is re-created while a plan of both is read: landed, halted, not verified."""
    send(harness, 7)
    with open_run(stream, "doubtful", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
        ingest_ranges(run)
        harness.delete("b")
        harness.create("b", partitions=1)
        with pytest.raises(ResetDetected, match="topic_recreated"):
            verify_ranges(run)


def test_its_rows_stay_and_landing_goes_on_when_it_is_put_back(harness, names, spark):
    """Audits stay clean, the group hears of the others only, and a rewind restores its position."""
    a, b = names
    group = f"{harness.name}-group"
    without = harness.stream(
        kafka={"connection": harness.connection, "topics": [a], "commit_group": group}
    )
    send(harness, 7)
    record = harness.run(without, "out", spark)
    assert [n.kind for n in record.notices] == ["topic_set_aside"]
    assert landed(without) == {a: 12, b: 5}
    assert head(without) == {(a, 0): 12, (b, 0): 5}
    assert is_clean(harness, without)
    with open_run(without, "look", RunRequest(), spark) as run:
        told = run.kafka.committed_offsets(group, list(head(without)))
        assert {p.topic: offset for p, offset in told.items()} == {a: 12, b: None}
        assert rewind_stream(run, RewindRequest("first", "a test", "ann")) is not None
    assert landed(without) == {a: 5, b: 5}
    record = harness.run(without, "again", spark)
    assert (landed(without), record.notices) == ({a: 12, b: 5}, ())
    back = harness.stream(topics=("a", "b"))
    record = harness.run(back, "back", spark)
    assert [n.kind for n in record.notices] == ["topic_taken_up"]
    assert [(r.topic, r.start_offset, r.end_offset) for r in record.plan.ranges] == [(b, 5, 12)]
    assert landed(back) == {a: 12, b: 12}
    assert is_clean(harness, back)


def test_a_frozen_plan_is_finished_as_it_is(harness, names, spark):
    """R1: what is taken out after that counts for the next plan."""
    a, b = names
    send(harness, 7)
    with open_run(harness.stream(topics=("a", "b")), "died", RunRequest(), spark) as run:
        plan_offset_ranges(run)
        detect_earliest_reset(run)
    without = harness.stream(topics=("a",))
    assert harness.run(without, "finishes", spark).finishes == "died"
    assert (landed(without), head(without)) == ({a: 12, b: 12}, {(a, 0): 12, (b, 0): 12})
    send(harness, 3)
    harness.run(without, "next", spark)
    assert (landed(without), head(without)) == ({a: 15, b: 12}, {(a, 0): 15, (b, 0): 12})
    assert is_clean(harness, without)


def test_rows_that_could_not_be_verified_wait_until_it_is_back(harness, names, spark):
    """They halt nobody meanwhile; then they halt again, and a decision is carried out."""
    a, b = names
    both = harness.stream(topics=("a", "b"))
    doubt(harness, both, spark)
    assert halts(harness, both, spark) == ["topic_recreated"]
    without = harness.stream(topics=("a",))
    for run_id in ("out", "later"):
        send(harness, 2)
        assert harness.run(without, run_id, spark).status == "done"
    assert head(without) == {(a, 0): 16, (b, 0): 5}
    assert len(open_ledger(without).read().control.incidents) == 1
    both = harness.stream(topics=("a", "b"))
    assert halts(harness, both, spark, "back") == ["topic_recreated"]
    decide(both, "restart")
    harness.run(both, "decided", spark)
    assert head(both) == {(a, 0): 16, (b, 0): 4}
    assert landed(both) == {a: 16, b: 5 + 4}
    assert len(closed_incidents(both)) == 1
    assert is_clean(harness, both)


def test_a_decision_about_a_topic_taken_out_is_carried_out(harness, names, spark):
    """Its unverified rows go, its position stays; what differs is found when it is back."""
    a, b = names
    both = harness.stream(topics=("a", "b"))
    doubt(harness, both, spark)
    without = harness.stream(topics=("a",))
    decide(without, "restart")
    assert harness.run(without, "decided", spark).status == "nothing_to_do"  # a is recovered
    assert (landed(without), head(without)) == ({a: 12, b: 5}, {(a, 0): 12, (b, 0): 5})
    assert not open_ledger(without).read().control.incidents
    assert is_clean(harness, without)
    both = harness.stream(topics=("a", "b"))
    assert halts(harness, both, spark, "back") == ["topic_recreated"]
