"""Whether a frozen plan can be read again (R3, R4)."""

import pytest

from tests.unit.build import OTHER_ID, observation, plan, planned, seen, topic
from tideline.core.replay import obstacles, unanswered

PLAN = plan(planned(100, 200))


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (observation(topic(seen(start=150, end=300))), "still there: [150, 200)"),
        (observation(topic(seen(start=250, end=300))), "still there: nothing"),
        (observation(topic(seen(end=300, epoch_end=180))), "truncated at 180"),
        (observation(topic(seen(end=150, epoch_end=200))), "ends at 150"),
        (observation(topic(seen(end=300), topic_id=OTHER_ID)), OTHER_ID),
        (observation(topic(topic_id=None)), "gone"),
        (observation(topic()), "the partition is gone"),
        (observation(topic(seen(end=300)), cluster="other"), "cluster other"),
    ],
)
def test_what_stands_in_the_way_is_named(now, text):
    """Every obstacle says which range and what is still there."""
    (found,) = obstacles(PLAN, now)
    assert text in found


def test_nothing_stands_in_the_way_of_a_whole_range():
    """The plan's own epoch and bounds count; the log may have grown."""
    assert obstacles(PLAN, observation(topic(seen(end=300, epoch=9, epoch_end=200)))) == ()


def test_no_answer_is_no_obstacle():
    """A broker that is away proves nothing about the log."""
    assert unanswered(PLAN, observation(topic(seen(fault="NotLeaderError"))))
    assert not unanswered(PLAN, observation(topic(seen())))
