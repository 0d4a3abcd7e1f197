"""Whether a frozen plan can be read again (R3, R4)."""

import pytest

from tests.unit.build import OTHER_ID, observation, plan, planned, seen, topic
from tideline.rules.replay import obstacles

PLAN = plan(planned(100, 200))


@pytest.mark.parametrize(
    ("now", "text"),
    [
        (observation(topic(seen(start=150, end=300))), "still there: [150, 200)"),
        (observation(topic(seen(start=250, end=300))), "still there: nothing"),
        (observation(topic(seen(end=300, epoch_end=180))), "truncated at 180"),
        (observation(topic(seen(end=300), topic_id=OTHER_ID)), OTHER_ID),
        (observation(topic(topic_id=None)), "gone"),
        (observation(topic()), "the partition is gone"),
        (observation(topic(seen(end=300)), cluster="other"), "cluster other"),
    ],
)
def test_what_stands_in_the_way_is_named(now, text):
    """Every obstacle says which range and what is still there."""
    (found,) = obstacles(PLAN.on_cluster, now)
    assert found.kind == "gone"
    assert text in str(found)


def test_nothing_stands_in_the_way_of_a_whole_range():
    """The plan's own epoch and bounds count; the log may have grown."""
    assert (
        obstacles(PLAN.on_cluster, observation(topic(seen(end=300, epoch=9, epoch_end=200)))) == ()
    )


@pytest.mark.parametrize(
    ("now", "kind"),
    [
        (observation(), "transient"),
        (observation(topic(topic_id=None, fault="x")), "transient"),
        (observation(topic(seen(fault="NotLeaderError"))), "transient"),
        (observation(topic(seen(end=150, epoch_end=200))), "transient"),
        (observation(topic(seen(end=300, epoch=2, epoch_end=150))), "transient"),
        (observation(topic(topic_id=None, refusal="x")), "refused"),
        (observation(topic(seen(refusal="TopicAuthorizationFailedError"))), "refused"),
    ],
)
def test_a_silent_a_lagging_and_a_refusing_broker_prove_nothing(now, kind):
    """None of them supersedes a plan."""
    assert [o.kind for o in obstacles(PLAN.on_cluster, now)] == [kind]
