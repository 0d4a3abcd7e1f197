"""A topic that the stream file does not mean any more: rows, plans, incidents, rewinds (R14)."""

import pytest

from tests.worlds.memory import one_range
from tideline.errors import BadInput, Halted, ReplayUnavailable, ResetDetected
from tideline.model.places import NOWHERE
from tideline.pipeline.steps import verify_ranges

A, B = ("a", 0), ("b", 0)


@pytest.fixture
def both(memory):
    """Two topics with five landed records each."""
    for topic in "ab":
        memory.create(topic)
    send(memory, 5)
    follow(memory, "a", "b")
    memory.run("first")
    return memory


def send(world, count):
    for topic in "ab":
        world.send(count, topic=topic)


def follow(world, *topics, **changes):
    world.configure(kafka={"topics": list(topics), **changes})


def by_topic(world):
    """How many rows each topic has."""
    ids = [topic_id for topic_id, *_ in world.rows()]
    return {topic: ids.count(world.topic_id(topic)) for topic in "ab"}


def kinds(found):
    return [notice.kind for notice in found.notices]


@pytest.mark.parametrize("way", ["topics", "topic_pattern"])
def test_a_topic_taken_out_is_told_once_and_goes_on_when_it_is_put_back(both, way):
    """Whatever the file says it with; also from one key to the other."""
    without = {"topics": ["a"]} if way == "topics" else {"topic_pattern": "[a]"}
    back = {"topic_pattern": "[ab]"} if way == "topics" else {"topics": ["a", "b"]}
    both.configure(kafka=without)
    both.send(7, topic="b")
    assert kinds(both.look()) == ["topic_set_aside"]
    assert kinds(both.run("told")) == ["topic_set_aside"]
    assert kinds(both.run("quiet")) == []
    shown = both.look()
    assert (shown.proposal.ranges, shown.findings, shown.halts) == ((), (), False)
    assert both.head == {A: 5, B: 5}
    assert both.ledger().read().head.set_aside == ("b",)
    both.configure(kafka=back)
    shown = both.look()
    planned = [(r.topic, r.start_offset, r.end_offset) for r in shown.proposal.ranges]
    assert (planned, kinds(shown)) == ([("b", 5, 12)], ["topic_taken_up"])


def test_what_expired_meanwhile_is_a_loss_when_it_is_put_back(both):
    """While it is out, nobody minds."""
    follow(both, "a")
    both.send(7, topic="b")
    both.expire(9, topic="b")
    assert both.run("out").status == "nothing_to_do"
    follow(both, "a", "b")
    assert both.halts("back") == ["retention_loss"]
    assert (both.incident.finding.lost_start, both.incident.finding.lost_end) == (5, 9)


@pytest.mark.parametrize("way", ["topics", "topic_pattern"])
def test_a_deleted_topic_is_missed_unless_it_was_taken_out(both, way):
    """The pattern still matches its name, and the cluster does not list it."""
    whole = {"topics": ["a", "b"]} if way == "topics" else {"topic_pattern": "[ab]"}
    without = {"topics": ["a"]} if way == "topics" else {"topic_pattern": "a"}
    both.configure(kafka=whole)
    both.delete("b")
    assert both.halts("missed") == ["topic_missing"]
    both.configure(kafka=without)
    record = both.run("out")
    assert (record.status, kinds(record)) == ("nothing_to_do", ["topic_set_aside"])
    (ended,) = both.closed
    assert "no longer followed since run out; the position stays" in str(ended.outcome)
    assert not both.incidents
    both.configure(kafka=whole)
    assert both.halts("missed again") == ["topic_missing"]


def test_a_backfill_of_a_topic_taken_out_is_refused(both):
    """Nobody follows it, so nobody would notice what happens to it."""
    follow(both, "a")
    with pytest.raises(BadInput, match=r"b.*put it back; allowed: a-0"):
        both.run("backfill", **one_range(0, 5, topic="b"))
    planned = both.look(**one_range(0, 5, topic="a")).proposal.ranges
    assert [(r.topic, r.start_offset, r.end_offset) for r in planned] == [("a", 0, 5)]


def test_a_window_means_the_topics_that_are_followed(both):
    """Ask for it again when the topic is back."""
    form = {"from": "2026-01-01T00:00:00Z", "to": both.clock.now().isoformat()}
    for followed in ("ab", "a"):
        follow(both, *followed)
        assert [r.topic for r in both.look(**form).proposal.ranges] == list(followed)


def test_its_rows_stay_and_landing_goes_on_when_it_is_put_back(both):
    """Audits stay clean, the group hears of the others only, and a rewind restores its position."""
    follow(both, "a", commit_group="group")
    send(both, 7)
    assert kinds(both.run("out")) == ["topic_set_aside"]
    assert (by_topic(both), both.head) == ({"a": 12, "b": 5}, {A: 12, B: 5})
    assert both.is_clean()
    assert {p.topic: offset for p, (_, offset) in both.cluster.groups["group"].items()} == {"a": 12}
    assert both.rewind("first") is not None
    assert by_topic(both) == {"a": 5, "b": 5}
    assert kinds(both.run("again")) == []
    assert by_topic(both) == {"a": 12, "b": 5}
    follow(both, "a", "b")
    record = both.run("back")
    assert kinds(record) == ["topic_taken_up"]
    assert [(r.topic, r.start_offset, r.end_offset) for r in record.plan.ranges] == [("b", 5, 12)]
    assert by_topic(both) == {"a": 12, "b": 12}
    assert both.is_clean()


def test_a_frozen_plan_is_finished_as_it_is(both):
    """R1: what is taken out after that counts for the next plan."""
    send(both, 7)
    both.freeze("died")
    follow(both, "a")
    assert both.run("finishes").finishes == "died"
    assert (by_topic(both), both.head) == ({"a": 12, "b": 12}, {A: 12, B: 12})
    send(both, 3)
    both.run("next")
    assert (by_topic(both), both.head) == ({"a": 15, "b": 12}, {A: 15, B: 12})
    assert both.is_clean()


@pytest.fixture
def doubtful(both):
    """Topic b is re-created while a plan of both is read: landed, halted, not verified."""
    send(both, 7)
    run = both.commit("doubtful")
    both.old = both.topic_id("b")
    both.create("b")
    with pytest.raises(ResetDetected, match="topic_recreated"):
        verify_ranges(run)
    return both


def test_rows_that_could_not_be_verified_wait_until_it_is_back(doubtful):
    """They halt nobody meanwhile; then they halt again, and a decision is carried out."""
    assert doubtful.halts() == ["topic_recreated"]
    follow(doubtful, "a")
    for run_id in ("out", "later"):
        send(doubtful, 2)
        assert doubtful.run(run_id).status == "done"
    assert doubtful.head == {A: 16, B: 5}
    assert len(doubtful.incidents) == 1
    follow(doubtful, "a", "b")
    assert doubtful.halts("back") == ["topic_recreated"]
    doubtful.decide("restart")
    doubtful.run("decided")
    assert doubtful.head == {A: 16, B: 4}
    assert by_topic(doubtful) == {"a": 16, "b": 4}
    assert [i for i, *_ in doubtful.rows()].count(doubtful.old) == 5
    assert len(doubtful.closed) == 1
    assert doubtful.is_clean()


def test_a_decision_about_a_topic_taken_out_is_carried_out(doubtful):
    """Its unverified rows go, its position stays; what differs is found when it is back."""
    follow(doubtful, "a")
    doubtful.decide("restart")
    assert doubtful.run("decided").status == "nothing_to_do"  # a is recovered
    assert [i for i, *_ in doubtful.rows()].count(doubtful.old) == 5
    assert doubtful.head == {A: 12, B: 5}
    assert not doubtful.incidents
    assert doubtful.is_clean()
    follow(doubtful, "a", "b")
    assert doubtful.halts("back") == ["topic_recreated"]


def test_a_frozen_plan_is_let_go_of_a_topic_without_rights_that_is_taken_out(both):
    """Its other topics are planned anew; put back with its rights, it goes on where it stood."""
    send(both, 7)
    both.freeze("dies")
    both.cluster.refused.add("b")
    with pytest.raises(Halted, match="cannot be read now"):
        both.run("refused")
    follow(both, "a")
    assert both.run("without").status == "done"
    assert by_topic(both) == {"a": 12, "b": 5}
    assert both.ledger().find_run("dies").superseded_by == "without"
    both.cluster.refused.clear()
    follow(both, "a", "b")
    both.run("back")
    assert by_topic(both) == {"a": 12, "b": 12}
    assert both.is_clean()


@pytest.fixture
def refused(both):
    """Rows of both topics are landed and not verified; then b's rights are lost for good."""
    send(both, 7)
    both.commit("dies")
    both.cluster.refused.add("b")
    return both


@pytest.mark.parametrize("is_met", [True, False], ids=["met before", "met after"])
def test_landed_rows_without_rights_halt_nobody_once_their_topic_is_taken_out(refused, is_met):
    """One incident names them; nobody has verified them, so they go when it is decided."""
    if is_met:
        assert refused.halts() == ["unknown"]
    follow(refused, "a")
    if not is_met:
        assert refused.halts() == ["unknown"]
    for run_id in ("without", "later"):
        send(refused, 1)
        assert refused.run(run_id).status == "done"
    assert refused.head == {A: 14, B: 5}
    (waiting,) = refused.incident.plans
    assert [(r.topic, r.start_offset, r.end_offset) for r in waiting.ranges] == [("b", 5, 12)]
    refused.decide("approve")
    refused.run("decided")
    assert "the unverified rows are gone" in str(refused.closed[0].outcome)
    assert (by_topic(refused), refused.head) == ({"a": 14, "b": 5}, {A: 14, B: 5})
    assert refused.is_clean()
    assert not refused.incidents


def gets_its_rights_back(refused):
    """After a run has met the refusal, and another one has gone on without the topic."""
    assert refused.halts() == ["unknown"]
    follow(refused, "a")
    refused.run("without")
    refused.cluster.refused.clear()


@pytest.mark.parametrize("is_followed", [True, False], ids=["put back", "still out"])
def test_landed_rows_are_verified_when_the_rights_are_back(refused, is_followed):
    """Kafka may have deleted the records by then: the rows are the only copies."""
    gets_its_rights_back(refused)
    refused.expire(12, topic="b")
    if is_followed:
        follow(refused, "a", "b")
        assert refused.halts("expired") == ["retention_loss", "unknown"]
        refused.decide("accept_loss", "incident-2")
    refused.decide("approve", "incident-1")
    refused.run("decided")
    assert (by_topic(refused), refused.head) == ({"a": 12, "b": 12}, {A: 12, B: 12})
    assert str(refused.closed[0].outcome) == "the cluster answers: the rows are verified"
    assert refused.ledger().read().head.accepted_loss == NOWHERE
    assert refused.is_clean()


def test_landed_rows_that_are_there_in_part_only_go(refused):
    """Nobody knows what else happened to them; the range is planned anew when the topic is back."""
    gets_its_rights_back(refused)
    unwanted = (refused.topic_id("b"), 7)
    kept = [r for r in refused.table.rows() if (r.identity.topic_id, r.offset) != unwanted]
    refused.table.add_foreign(kept, "DELETE", removes_rows=True)
    assert refused.halts("deleted") == ["table_changed"]
    for incident in refused.incidents:
        refused.decide("approve", incident.incident_id)
    refused.run("decided")
    assert (by_topic(refused), refused.head) == ({"a": 12, "b": 5}, {A: 12, B: 5})
    assert refused.is_clean()


def test_landed_rows_of_a_topic_that_was_created_anew_meanwhile_go(refused):
    """What the cluster answers must be about the log that was read."""
    gets_its_rights_back(refused)
    refused.create("b")
    refused.decide("approve")
    refused.run("decided")
    assert refused.head == {A: 12, B: 5}
    assert len(refused.rows()) == 12 + 5
    assert refused.is_clean()


def test_what_is_left_of_such_rows_halts_nobody_either(refused):
    """Somebody has deleted some of them, and that was approved; nobody can read them again."""
    refused.delete_rows(lambda offset: offset == 7)
    assert refused.halts() == ["table_changed"]
    refused.decide("approve")
    follow(refused, "a")
    assert refused.halts("of b") == ["unknown"]
    assert refused.halts("of a") == ["unexplained_gap"]
    for incident, choice in zip(refused.incidents, ("approve", "accept_loss"), strict=True):
        refused.decide(choice, incident.incident_id)
    assert refused.run("decided").status == "nothing_to_do"
    assert (by_topic(refused), refused.head) == ({"a": 11, "b": 5}, {A: 12, B: 5})
    assert refused.is_clean()
    assert not refused.incidents


@pytest.mark.parametrize("offsets", [(0, 5), (5, 12)], ids=["landed before", "new"])
@pytest.mark.parametrize("begins", ["freeze", "commit"])
def test_a_backfill_of_a_topic_without_rights_that_is_taken_out_ends(both, begins, offsets):
    """It is given up when nothing of it is left to decide; rows that others verified stay."""
    send(both, 7)
    form = one_range(*offsets, topic="b")
    getattr(both, begins)("fills", **form)
    both.cluster.refused.add("b")
    with pytest.raises(Halted):
        both.run("fills", **form)
    assert both.ledger().find_run("fills").is_open
    follow(both, "a")
    if both.incidents:
        assert both.halts("fills", **form) == ["unknown"]
        both.decide("approve")
        both.run("live")
    with pytest.raises(ReplayUnavailable, match="TOPIC_AUTHORIZATION_FAILED"):
        both.run("fills", **form)
    assert both.ledger().find_run("fills").status == "superseded"
    assert both.head[B] == 5
    assert by_topic(both)["b"] == 5
    both.cluster.refused.clear()
    follow(both, "a", "b")
    both.run("back")
    assert by_topic(both) == {"a": 12, "b": 12}
    assert both.is_clean()
