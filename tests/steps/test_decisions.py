"""Decisions: carried out, recorded, and narrow (R6, R8, R9)."""

import pytest

from tests.worlds.memory import spans
from tests.worlds.spark_doubles import HookedSpark, LossySpark
from tideline.errors import ReplayUnavailable, ResetDetected
from tideline.pipeline.steps import verify_ranges

LOSS = {"retention_loss": "accept_loss"}


@pytest.fixture
def expired(landed):
    """The log starts behind the position."""
    landed.send(50)
    landed.expire(130)
    return landed


def test_an_accepted_loss_goes_on_at_the_log_start(expired):
    """The halted run, run again; lost interval, name and reason are in the ledger."""
    assert expired.halts() == ["retention_loss"]
    expired.decide("accept_loss", by="ann")
    assert spans(expired.run("halted")) == [(0, 130, 150)]
    assert expired.head == {("orders", 0): 150}
    (incident,) = expired.closed
    assert (incident.decision.by, incident.decision.reason) == ("ann", "it was meant")
    assert (incident.finding.lost_start, incident.finding.lost_end) == (100, 130)
    assert "lost: [100, 130): 30 offsets" in incident.outcome
    assert incident.finding.lost_until is not None
    assert expired.is_clean()


def test_what_is_really_lost_is_recorded_when_the_decision_is_carried_out(expired):
    """Retention went on after the decision."""
    expired.halts()
    expired.decide("accept_loss")
    expired.expire(140)
    assert spans(expired.run("later")) == [(0, 140, 150)]
    assert "lost: [100, 140): 40 offsets" in expired.closed[0].outcome


def test_a_policy_decides_without_a_person(expired):
    """on_reset.retention_loss: accept_loss; no run fails, the ledger says by policy."""
    expired.configure(on_reset=LOSS)
    record = expired.run("goes on")
    assert spans(record) == [(0, 130, 150)]
    assert record.resolved[0].decision.by == "policy"
    assert expired.is_clean()


def test_fail_keeps_the_incident_open_until_somebody_decides_otherwise(expired):
    """It is an answer, and not the last."""
    expired.halts()
    expired.decide("fail")
    assert expired.halts("later") == ["retention_loss"]
    expired.decide("accept_loss")
    assert expired.run("at last").status == "done"


def test_a_dry_run_tells_whether_a_run_would_halt(expired):
    """By findings, policies and decisions; it opens no incident."""
    assert expired.look().halts
    expired.configure(on_reset=LOSS)
    assert not expired.look().halts
    expired.configure()
    assert not expired.incidents
    expired.halts()
    expired.decide("accept_loss")
    assert not expired.look().halts


def test_one_bad_partition_does_not_hold_up_the_others(pair):
    """on_incident: proceed: the finder halts, later runs land the healthy partitions."""
    pair.configure(on_incident="proceed")
    pair.send(10)
    pair.send(10, partition=1)
    pair.expire(55)
    assert pair.halts() == ["retention_loss"]
    assert spans(pair.run("healthy")) == [(1, 50, 60)]
    pair.send(5, partition=1)
    assert spans(pair.run("healthy again")) == [(1, 60, 65)]
    assert pair.incident.run_id == "halted"
    pair.decide("accept_loss")
    assert spans(pair.run("decided")) == [(0, 55, 60)]
    assert pair.head == {("orders", 0): 60, ("orders", 1): 65}
    assert pair.is_clean()


@pytest.mark.parametrize("choice", ["restart", "accept_loss"])
def test_a_recreated_topic_is_read_beside_the_old_one(landed, choice):
    """The old incarnation's rows stay; the same offsets under the new id are other records."""
    old, new = landed.topic_id(), landed.create(partitions=2)
    landed.send(30)
    assert landed.halts() == ["topic_recreated"]
    landed.decide(choice)
    assert spans(landed.run("later")) == [(0, 0, 30)]
    ids = [topic_id for topic_id, *_ in landed.rows()]
    assert (ids.count(old), ids.count(new)) == (100, 30)
    assert landed.is_clean()


@pytest.mark.parametrize("choice", ["restart", "accept_loss"])
def test_a_wiped_log_goes_on_in_a_new_generation(landed, choice):
    """Cut at 0, so both read all that is there; the old rows stay in generation 0."""
    landed.log().elect(0)
    landed.send(300)
    assert landed.halts() == ["truncation"]
    landed.decide(choice)
    assert spans(landed.run("later")) == [(0, 0, 300)]
    assert [len(landed.rows(generation=g)) for g in (0, 1)] == [100, 300]
    assert landed.is_clean()
    landed.send(5)
    assert spans(landed.run("goes on")) == [(0, 300, 305)]


def test_a_retired_topic_is_no_longer_missed(landed):
    """The other topic goes on; the name may come back as a new topic."""
    landed.create("b")
    landed.configure(kafka={"topics": ["orders", "b"]})
    landed.send(5, topic="b")
    landed.run("both")
    landed.delete()
    landed.send(5, topic="b")
    assert landed.halts() == ["topic_missing"]
    landed.decide("retire")
    landed.run("decided")
    assert landed.head == {("b", 0): 10}
    assert landed.run("quiet").status == "nothing_to_do"
    landed.create()
    landed.send(3)
    assert [n.kind for n in landed.run("new topic").notices] == ["new_topic"]
    assert landed.head == {("orders", 0): 3, ("b", 0): 10}
    assert len(landed.rows()) == 113


def test_a_stream_may_move_to_a_cluster_that_lacks_a_topic(landed):
    """Every topic starts anew there, beside the old rows; what is not there is retired."""
    landed.create("b")
    landed.configure(kafka={"topics": ["orders", "b"]})
    landed.send(5, topic="b")
    landed.run("both")
    landed.swap_cluster(orders=30)
    assert landed.halts() == ["cluster_changed"]
    landed.decide("restart")
    record = landed.run("moved")
    assert spans(record) == [(0, 0, 30)]
    assert landed.head == {("orders", 0): 30}
    assert "no longer followed" in record.resolved[0].outcome
    assert len(landed.rows()) == 135
    assert landed.is_clean()


@pytest.fixture
def unverified(landed):
    """A plan whose topic was re-created while it was read: landed, halted, not verified."""
    landed.send(10)
    run = landed.commit("doubtful")
    landed.create()
    landed.send(30)
    with pytest.raises(ResetDetected, match=r"topic_recreated.*unverified rows of plan"):
        verify_ranges(run)
    assert len(landed.rows()) == 110
    return landed


def test_unverified_rows_do_not_stay(unverified):
    """R6: nobody knows whose records they are; the version that removed them is on record."""
    assert unverified.halts("later") == ["topic_recreated"]
    unverified.decide("restart")
    record = unverified.run("decided")
    assert spans(record) == [(0, 0, 30)]
    assert record.resolved[0].removed_in_version == unverified.version - 1
    assert len(unverified.rows()) == 130
    assert unverified.run("doubtful").status == "superseded"
    assert unverified.is_clean()


def test_the_halted_run_itself_carries_the_decision_out(unverified):
    """Cleared after the decision, it ends green; the next run reads the new incarnation."""
    unverified.decide("restart")
    assert unverified.run("doubtful").status == "superseded"
    assert spans(unverified.run("next")) == [(0, 0, 30)]
    assert len(unverified.rows()) == 130
    assert unverified.is_clean()


def test_somebody_else_s_delete_halts_and_can_be_approved(landed):
    """R13: a legitimate delete is recorded; audit knows about it afterwards."""
    landed.delete_rows(lambda offset: offset < 40)
    landed.send(10)
    assert landed.halts() == ["table_changed"]
    assert f"version {landed.version}: DELETE" in landed.incident.finding.actual
    landed.decide("approve")
    record = landed.run("approved")
    assert "it no longer holds 40 verified offsets" in record.resolved[0].outcome
    assert spans(record) == [(0, 100, 110)]
    assert landed.is_clean()


def test_a_restored_table_halts(landed):
    """Rows that the ledger counts on are gone, whatever the log still holds."""
    landed.send(10)
    landed.run("second")
    landed.table.add_foreign(landed.table.rows()[:100], "RESTORE", removes_rows=True)
    assert landed.halts() == ["table_changed"]


def test_upkeep_by_others_is_no_finding(landed):
    """OPTIMIZE and properties move no row."""
    landed.table.add_foreign(landed.table.rows(), "OPTIMIZE", removes_rows=False)
    landed.send(10)
    assert landed.run("second").status == "done"


def test_a_table_that_was_changed_under_a_frozen_plan_can_be_approved(landed):
    """Planning has not seen it; the plan goes on once somebody has."""
    landed.send(10)
    landed.freeze("frozen")
    landed.delete_rows(lambda offset: offset < 40)
    assert landed.halts("frozen") == ["table_changed"]
    assert landed.halts("later") == ["table_changed"]
    landed.decide("approve")
    record = landed.run("later")
    assert spans(record) == [(0, 100, 110)]
    assert [i.decision.choice for i in record.resolved] == ["approve"]
    assert landed.is_clean()


def test_a_replay_is_checked_again_before_it_is_committed(landed):
    """Re-created after it was read: what was read may be foreign; the rows stay (R4)."""

    def recreate():
        landed.create()
        landed.send(100)

    version, files = landed.version, dict(landed.table.files)
    landed.sparks = [lambda spark: HookedSpark(spark, after=recreate)]
    with pytest.raises(ReplayUnavailable, match="is not the plan's"):
        landed.run("lands")
    assert (landed.version, landed.table.files) == (version, files)


def test_a_shorter_replay_never_replaces_what_is_there(landed):
    """Counted before it is committed; what it wrote is deleted."""
    version, files = landed.version, dict(landed.table.files)
    landed.sparks = [lambda spark: LossySpark(spark, 1)]
    with pytest.raises(ReplayUnavailable, match="99 offsets were read where the table holds 100"):
        landed.run("lands")
    assert (landed.version, landed.table.files) == (version, files)


def to_another_cluster(world):
    world.swap_cluster(orders=30)


def to_another_topic(world):
    world.create()
    world.send(30)


def cut_below(world):
    end = world.log().end
    world.log().elect(80 if end == 100 else 50)
    world.send(5)


@pytest.mark.parametrize(
    ("happens", "choice"),
    [(to_another_cluster, "restart"), (to_another_topic, "accept_loss"), (cut_below, "restart")],
)
def test_a_decision_covers_no_other_cluster_topic_or_cut(landed, choice, happens):
    """Whoever has decided was shown the first one; what it had is never read."""
    happens(landed)
    landed.halts()
    landed.decide(choice)
    happens(landed)
    before = landed.head
    landed.halts("later")
    assert landed.head == before
    assert [i.incident_id for i in landed.closed] == ["incident-1"]
    assert "has changed again: incident-2" in landed.closed[0].outcome
    landed.decide(choice, "incident-2")
    landed.run("decided")
    assert not landed.incidents
    assert landed.is_clean()


def test_a_topic_that_came_back_and_went_again_is_asked_about_anew(landed):
    """It had other records by then, which nobody has been shown."""
    landed.delete()
    assert landed.halts() == ["topic_missing"]
    landed.decide("retire")
    to_another_topic(landed)
    assert landed.halts("back") == ["topic_recreated"]
    assert [i.incident_id for i in landed.incidents] == ["incident-2"]
    landed.delete()
    assert landed.halts("gone") == ["topic_missing"]
    landed.decide("retire", "incident-3")
    landed.run("decided")
    assert (landed.head, landed.incidents) == ({}, ())
