"""How long until retention reaches what is unread."""

from datetime import timedelta

from tests.worlds.build import NOW, OTHER_ID, observation, position, seen, topic
from tideline.model.offsets import TopicPartition
from tideline.rules.advance import headroom_of, low_headroom, unread_places

HOUR = timedelta(hours=1)


def test_only_what_is_unread_and_still_there_is_asked_about():
    """Up to date, re-created: nothing to measure; where retention came, its log's start is next."""
    positions = [position(100, n) for n in range(4)]
    now = observation(
        topic(
            seen(end=150),
            seen(end=100, partition=1),
            seen(start=120, end=300, partition=2),
            seen(end=900, partition=3),
        )
    )
    assert list(unread_places(positions, now).items()) == [
        (("orders", 3), 100),
        (("orders", 2), 120),
        (("orders", 0), 100),
    ]
    assert list(unread_places(positions, now, most=1)) == [("orders", 3)]
    assert unread_places([position(100, topic_id=OTHER_ID)], now) == {}


def test_age_and_retention_give_the_time_left():
    """The least first; what has no limit or no known age comes last."""
    unread = {TopicPartition("a", 0): 5, TopicPartition("b", 0): 6, TopicPartition("c", 0): 7}
    written = {
        TopicPartition("a", 0): NOW - HOUR,
        TopicPartition("b", 0): NOW - 2 * HOUR,
        TopicPartition("c", 0): None,
    }
    kept = {"a": None, "b": 3 * 3600 * 1000, "c": 1000}
    found = headroom_of(unread, written, kept)
    assert [(h.topic, h.seconds_left(NOW)) for h in found] == [
        ("b", 3600.0),
        ("a", None),
        ("c", None),
    ]
    assert [h.topic for h in low_headroom(found, 3601, NOW)] == ["b"]
    assert low_headroom(found, 3600, NOW) == ()


def test_kept_for_longer_than_there_are_dates_is_no_limit():
    """retention.ms at its largest, and records from the year 57868."""
    forever = headroom_of(
        {TopicPartition("a", 0): 5}, {TopicPartition("a", 0): NOW}, {"a": 2**63 - 1}
    )
    assert forever[0].seconds_left(NOW) is None


def test_overdue_is_negative():
    """Retention has not run yet, it may any moment."""
    (found,) = headroom_of(
        {TopicPartition("a", 0): 5}, {TopicPartition("a", 0): NOW - HOUR}, {"a": 60_000}
    )
    assert found.seconds_left(NOW) == -3540
