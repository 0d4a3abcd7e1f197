"""What became of one record, as a person asks on a bad night."""

import pytest

from tideline.errors import BadInput, ServiceAway
from tideline.model.offsets import TopicPartition
from tideline.operations.questions import explain_record


def explained(world, offset, partition=0, topic="orders"):
    found = explain_record(world.open("look"), TopicPartition(topic, partition), offset)
    return found.outcome, found.text


def test_what_an_incident_is_about_is_at_stake_until_a_run_has_carried_a_decision_out(landed):
    """Deleted before any run read it: never `unread`, with a decision or without one."""
    landed.send(30)
    assert explained(landed, 110)[0] == "unread"
    landed.expire(115)
    outcome, text = explained(landed, 110)
    assert (outcome, "the log starts at 115" in text) == ("deleted", True)
    assert landed.halts() == ["retention_loss"]
    outcome, text = explained(landed, 110)
    assert outcome == "at_stake"
    assert "incident-1: retention_loss: records were deleted" in text
    assert text.endswith("nobody has decided")
    landed.decide("fail")
    assert explained(landed, 110)[1].endswith("nobody has decided")
    landed.decide("accept_loss")
    outcome, text = explained(landed, 114)
    assert outcome == "at_stake"
    assert "accept_loss by ann: it was meant; the next run carries it out" in text
    assert explained(landed, 115)[0] == "unread"
    assert explained(landed, 99)[0] == "landed"
    landed.run("again")
    assert explained(landed, 114)[0] == "accepted_loss"


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ({"topic": "orderz"}, "topic: got 'orderz', did you mean orders? allowed: orders$"),
        ({"topic": "x"}, "topic: got 'x'; allowed: orders$"),
        ({"partition": 7}, "partition: got 7; allowed for orders: 0 to 0$"),
        ({"offset": 100}, "offset: got 100; allowed: below 100, where the log of orders-0 ends$"),
    ],
)
def test_what_does_not_exist_is_refused(landed, place, problem):
    """Whoever mistypes an offset would believe that it is still to be read."""
    with pytest.raises(BadInput, match=problem.replace("?", r"\?")):
        explained(landed, **{"offset": 0, **place})


def test_before_the_first_run_the_brokers_tell_what_there_is(memory):
    """The ledger has no position yet, and knows nothing."""
    memory.send(3)
    assert explained(memory, 2)[0] == "not_followed"
    with pytest.raises(BadInput, match="offset: got 3"):
        explained(memory, 3)
    memory.delete()
    with pytest.raises(BadInput, match="the cluster has no such topic"):
        explained(memory, 2)


def test_what_the_ledger_knows_is_told_without_the_brokers(landed, monkeypatch):
    """And what it does not know is told as far as it goes."""

    def away(*_):
        raise ServiceAway("no broker answers")

    monkeypatch.setattr(type(landed.open("look").kafka), "observe", away)
    assert explained(landed, 99) == ("landed", "by run lands")
    outcome, text = explained(landed, 100)
    assert (outcome, text.endswith("the brokers were not asked: no broker answers")) == (
        "unread",
        True,
    )


def test_rows_of_a_retired_topic_are_still_explained(landed):
    """Its positions are put aside, and its rows stay."""
    landed.send(5)
    landed.delete()
    assert landed.halts() == ["topic_missing"]
    landed.decide("retire")
    landed.run("retires")
    assert explained(landed, 99) == ("landed", "by run lands")
    outcome, text = explained(landed, 100)
    assert (outcome, "retired at offset 100" in text) == ("not_followed", True)


def test_the_incarnation_that_was_retired_last_is_explained(landed):
    """Whatever its id is; and no run reports that a retired topic is gone."""
    for number in range(4):
        landed.delete()
        landed.halts(f"gone {number}")
        landed.decide("retire")
        landed.run(f"retires {number}")
        assert explained(landed, 2) == ("landed", f"by run {number or 'lands'}")
        outcome, text = explained(landed, 200)
        assert (outcome, "the next run" in text) == ("not_followed", False)
        landed.create()
        landed.send(3)
        landed.run(f"{number + 1}")
