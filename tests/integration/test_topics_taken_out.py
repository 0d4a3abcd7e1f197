"""A topic that the stream file does not mean any more, on a real broker; nothing is landed here."""

from datetime import timedelta

import pytest

from devstack.spark_apps import NoSpark
from tests.worlds.build import NOW
from tests.worlds.streams import head
from tideline.errors import BadInput, ResetDetected
from tideline.model.request import read_form
from tideline.operations.reading import dry_run
from tideline.wiring import open_ledger, open_run


@pytest.fixture
def names(harness):
    """Two topics with five records each, followed from their ends on."""
    names = [harness.create(suffix, partitions=1) for suffix in ("a", "b")]
    for suffix in ("a", "b"):
        harness.send(5, suffix)
    harness.run(stream(harness, "a", "b"), "first", NoSpark())
    return names


def stream(harness, *topics, **changes):
    return harness.stream(topics=topics, start="latest", **changes)


def matching(harness, pattern):
    kafka = {"topic_pattern": f"{harness.name}-{pattern}"}
    return harness.stream(kafka=kafka, start="latest")


def looks(stream, **form):
    with open_run(stream, "look", read_form(form, NOW), NoSpark()) as run:
        return dry_run(run)


def kinds(record):
    return [n.kind for n in record.notices]


@pytest.mark.parametrize("way", ["topics", "topic_pattern"])
def test_a_topic_taken_out_is_told_once_and_goes_on_when_it_is_put_back(harness, names, way):
    """Whatever the file says it with; also from one key to the other."""
    without = stream(harness, "a") if way == "topics" else matching(harness, "[a]")
    harness.send(7, "b")
    assert [n.kind for n in looks(without).notices] == ["topic_set_aside"]
    assert kinds(harness.run(without, "told", NoSpark())) == ["topic_set_aside"]
    assert kinds(harness.run(without, "quiet", NoSpark())) == []
    shown = looks(without)
    assert (shown.proposal.ranges, shown.findings, shown.halts, shown.notices) == (
        (),
        (),
        False,
        (),
    )
    assert head(without) == {(names[0], 0): 5, (names[1], 0): 5}
    assert open_ledger(without).read().head.set_aside == (names[1],)
    back = matching(harness, "[ab]") if way == "topics" else stream(harness, "a", "b")
    shown = looks(back)
    assert [(r.topic, r.start_offset, r.end_offset) for r in shown.proposal.ranges] == [
        (names[1], 5, 12)
    ]
    assert [n.kind for n in shown.notices] == ["topic_taken_up"]


def test_what_expired_meanwhile_is_a_loss_when_it_is_put_back(harness, names):
    """While it is out, nobody minds."""
    without = stream(harness, "a")
    harness.send(7, "b")
    harness.delete_records(before=9, suffix="b")
    assert harness.run(without, "out", NoSpark()).status == "nothing_to_do"
    back = stream(harness, "a", "b")
    with pytest.raises(ResetDetected) as halted:
        harness.run(back, "back", NoSpark())
    (incident,) = halted.value.incidents
    assert (incident.finding.kind, incident.finding.lost_start, incident.finding.lost_end) == (
        "retention_loss",
        5,
        9,
    )


@pytest.mark.parametrize("way", ["topics", "topic_pattern"])
def test_a_deleted_topic_is_missed_unless_it_was_taken_out(harness, names, way):
    """R14: the pattern still matches its name, and the cluster does not list it."""
    whole = stream(harness, "a", "b") if way == "topics" else matching(harness, "[ab]")
    harness.delete("b")
    with pytest.raises(ResetDetected, match="topic_missing"):
        harness.run(whole, "missed", NoSpark())
    without = stream(harness, "a") if way == "topics" else matching(harness, "a")
    record = harness.run(without, "out", NoSpark())
    assert (record.status, kinds(record)) == ("nothing_to_do", ["topic_set_aside"])
    (ended,) = open_ledger(without).closed_incidents()
    assert "no longer followed since run out; its position stays" in str(ended.outcome)
    assert not open_ledger(without).read().control.incidents
    with pytest.raises(ResetDetected, match="topic_missing"):
        harness.run(whole, "missed again", NoSpark())


def test_a_backfill_of_a_topic_taken_out_is_refused(harness, names):
    """Nobody follows it, so nobody would notice what happens to it."""
    without = stream(harness, "a")
    wanted = [{"topic": n, "partition": 0, "start_offset": 0, "end_offset": 5} for n in names]
    with pytest.raises(BadInput, match=f"{names[1]}.*put it back; allowed: {names[0]}-0"):
        harness.run(without, "backfill", NoSpark(), ranges=wanted[1:])
    planned = looks(without, ranges=wanted[:1]).proposal.ranges
    assert [(r.topic, r.start_offset, r.end_offset) for r in planned] == [(names[0], 0, 5)]


def test_a_window_means_the_topics_that_are_followed(harness):
    """Ask for it again when the topic is back."""
    keep = {"retention.ms": "-1"}
    names = [harness.create(suffix, partitions=1, **keep) for suffix in ("a", "b")]
    for suffix in ("a", "b"):
        harness.send_at(NOW - timedelta(hours=3), NOW - timedelta(hours=1), suffix=suffix)
    whole = stream(harness, "a", "b")
    harness.run(whole, "first", NoSpark())
    form = {"from": "2025-12-31T20:00:00Z", "to": "2025-12-31T22:00:00Z"}
    for followed, wanted in (("a", "b"), names), (("a",), names[:1]):
        ranges = looks(stream(harness, *followed), **form).proposal.ranges
        assert [(r.topic, r.start_offset, r.end_offset) for r in ranges] == [
            (name, 0, 1) for name in wanted
        ]
