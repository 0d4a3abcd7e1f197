"""What is told and halts nothing."""

from datetime import timedelta

from tests.worlds.build import NOW, OTHER_ID, head, observation, position, seen, topic
from tideline.model.head import Head
from tideline.rules.planning import new_places, open_transactions


def test_new_topics_and_partitions_are_told_but_not_at_the_first_look():
    """At the first look everything is new."""
    before = head(position(partition=0))
    after = head(
        position(partition=0), position(0, 1), position(3, topic="payments", topic_id=OTHER_ID)
    )
    assert [(n.kind, n.topic, n.partition) for n in new_places(before, after)] == [
        ("new_partition", "orders", 1),
        ("new_topic", "payments", 0),
    ]
    assert new_places(Head(), after) == ()


def test_an_open_transaction_is_told_and_after_a_while_called_hanging():
    """Brokers end a transaction after 15 minutes by default; an older one hangs."""
    now = observation(topic(seen(end=200, stable=150), seen(partition=1)))
    place = ("orders", 0)

    def told(age):
        (notice,) = open_transactions(now, {place: NOW - age}, NOW)
        return notice

    assert told(timedelta(minutes=1)).kind == "open_transaction"
    assert "stable offset at 150; 50 offsets wait" in told(timedelta(minutes=1)).text
    assert told(timedelta(minutes=16)).kind == "hanging_transaction"
    (unknown,) = open_transactions(now, {}, NOW)
    assert unknown.kind == "open_transaction"
