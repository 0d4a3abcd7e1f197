"""Rows 6-8: the topic was deleted and re-created; its offsets begin anew."""

import pytest

from tests.faults.oracle import assert_exact
from tests.faults.trial import LANDED, Meddled
from tests.real import decide


def recreate(trial, records):
    """Another topic of the same name, with records of its own."""
    trial.world.delete()
    trial.world.create(partitions=1)
    if records:
        trial.send(records)


def assert_names_both_ids(trial, finding, old):
    assert finding.topic_id == old
    assert old in finding.expected
    assert trial.world.topic_id() in finding.actual


def test_recreated_below_the_position(trial):
    """Detection: the topic id (KIP-516)."""
    trial.follow()
    trial.lands()
    trial.send(50)
    old = trial.world.topic_id()
    recreate(trial, 10)
    assert_names_both_ids(trial, trial.halts("topic_recreated").finding, old)
    assert trial.is_untouched
    trial.judge(6, "re-created, below the position")


@pytest.mark.slow
def test_recreated_and_refilled_past_the_position(trial):
    """Detection: the topic id (KIP-516); epoch and offsets look healthy."""
    trial.follow()
    trial.lands()
    trial.send(50)
    old = trial.world.topic_id()
    recreate(trial, 300)
    submits = trial.spark.submits
    assert_names_both_ids(trial, trial.halts("topic_recreated").finding, old)
    assert trial.is_untouched
    assert trial.spark.submits == submits
    trial.judge(7, "re-created, refilled past the position")


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before", "after"])
def test_recreated_while_it_was_read(trial, moment):
    """R7 after the read: the topic id; Spark reads by name, so its rows are in doubt."""
    trial.follow()
    trial.lands()
    trial.send(50)
    meddled = Meddled(trial.spark, **{moment: lambda: recreate(trial, 300)})
    incident = trial.halts("topic_recreated", meddled)
    assert [str(r.offsets) for r in incident.doubtful] == [f"[{LANDED}, {LANDED + 50})"]
    assert "unverified rows of plan" in trial.said
    trial.judge(8, f"re-created between check and check, {moment} Spark read")


@pytest.mark.slow
def test_what_was_read_from_another_incarnation_does_not_stay(trial):
    """R6: its unverified rows are removed before the decision takes effect."""
    trial.follow()
    trial.lands()
    meddled = Meddled(trial.spark, before=lambda: recreate(trial, 300))
    trial.send(50)
    unread = {place for place in trial.log.written if place[2] >= LANDED}
    incident = trial.halts("topic_recreated", meddled)
    decide(trial.stream, "restart", incident.incident_id)
    trial.run()
    for place in unread:
        del trial.log.written[place]
    assert_exact(trial.stream, trial.log)
    trial.judge(8, "re-created before Spark read, then restarted by a decision")
