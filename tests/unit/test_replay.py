"""Whether a frozen plan can be read again (R3, R4)."""

from types import SimpleNamespace

import pytest

from tests.texts import PLANNED_AGAIN, STAYS
from tests.worlds.build import ID, OTHER_ID, head, observation, plan, planned, seen, topic
from tideline.landing.proof import obstacles_to
from tideline.model.observation import Gap
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.plan import LandedRange
from tideline.rules.replay import (
    obstacles,
    of_this_log,
    only_copies,
    shorter_than_landed,
    unread,
    unverified_rows_stand,
    what_stays,
)

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


def lost(found):
    return [(o.expired, [(r.start_offset, r.end_offset) for r in o.lost]) for o in found]


@pytest.mark.parametrize(
    ("start", "epoch_end", "parts"),
    [
        (150, 180, [(True, [(100, 150)]), (False, [(180, 200)])]),  # [150, 180) is left
        (180, 180, [(True, [(100, 180)]), (False, [(180, 200)])]),
        (190, 150, [(True, [(100, 150)]), (False, [(150, 200)])]),
        (150, -1, [(False, [(100, 200)])]),
        (0, -1, [(False, [(100, 200)])]),
        (150, 50, [(False, [(100, 200)])]),
        (250, 220, [(True, [(100, 200)])]),
    ],
)
def test_a_log_that_lost_both_ends_is_told_with_both(start, epoch_end, parts):
    """No offset is named twice, and none is left out."""
    found = obstacles(PLAN.on_cluster, observation(topic(seen(start, 300, epoch_end=epoch_end))))
    assert lost(found) == parts
    assert all("-1" not in str(o) for o in found)
    assert "truncated" in str(found[-1]) or epoch_end >= 200
    assert f"starts at {start}" in str(found[0]) or start <= 100


def test_an_epoch_that_the_leader_does_not_know_is_named():
    """-1 is Kafka's word for it, and nobody's offset."""
    (found,) = obstacles(PLAN.on_cluster, observation(topic(seen(end=300, epoch_end=-1))))
    assert "truncated: its leader does not know epoch 3" in str(found)


def test_an_obstacle_is_the_same_while_retention_moves():
    """Otherwise two looks never agree, and an expired plan is called a service that is away."""

    def keys(start, partition=0):
        asked = plan(planned(100, 200, partition=partition)).on_cluster
        log = [seen(start=start, end=300, partition=p) for p in range(2)]
        return [o.key for o in obstacles(asked, observation(topic(*log)))]

    assert keys(150) == keys(151)
    assert keys(150) != keys(150, partition=1)
    cut = obstacles(PLAN.on_cluster, observation(topic(seen(end=300, epoch_end=180))))
    assert [o.key for o in cut] != keys(150)


@pytest.mark.parametrize("lane", ["live", "backfill"])
def test_what_is_said_to_stay_is_in_the_table(lane):
    """A first read has landed nothing: no rows can be promised, and the way out is named."""
    never = what_stays(lane, {}, closed=lane == "backfill")
    assert "None of its rows is in the table" in never
    assert (PLANNED_AGAIN if lane == "backfill" else "next run") in never
    range_ = PLAN.ranges[0]
    held = {range_.identity: LandedRange(range_.identity, 7, (OffsetRange(100, 107),))}
    stay = what_stays(lane, held, closed=False)
    assert stay == f"The 7 {STAYS}"
    assert PLANNED_AGAIN not in what_stays(lane, {}, closed=False)
    assert PLANNED_AGAIN in what_stays(lane, held, closed=True)


def test_rows_that_nobody_has_verified_are_told_from_covered_ones():
    """The coverage of another run is its own."""
    range_ = PLAN.ranges[0]
    held = {range_.identity: LandedRange(range_.identity, 7, (OffsetRange(100, 107),))}

    def stand(end, landed=held):
        covered = Places({range_.identity: (OffsetRange(100, end),)})
        return unverified_rows_stand(head(coverage=covered), landed)

    assert stand(106)
    assert not stand(107)
    assert not stand(101, {})


def test_looks_agree_while_retention_moves():
    """The second look settles it; a run must not wait its patience out and say "away"."""
    starts = iter((150, 151, 152))

    def observe(topics, epochs):
        return observation(topic(seen(start=next(starts), end=300)))

    run = SimpleNamespace(
        kafka=SimpleNamespace(observe=observe),
        stream=SimpleNamespace(patience_seconds=60),
        first_pause_seconds=0,
    )
    (found,) = obstacles_to(run, PLAN.on_cluster)
    assert "starts at 151" in str(found)


def held(*intervals, rows=None):
    offsets = tuple(OffsetRange(*bounds) for bounds in intervals)
    one = PartitionIdentity(ID, 0, 0)
    return {one: LandedRange(one, rows or sum(map(len, offsets)), offsets)}


@pytest.mark.parametrize(
    ("read", "landed", "said"),
    [
        (held((100, 200)), {}, None),
        (
            {},
            held((100, 110)),
            "0 offsets were read where the table holds 10; not read: [100, 110)",
        ),
        (held((100, 200)), held((100, 200)), None),
        (held((100, 200)), held((120, 130)), None),
        (held((100, 199)), held((100, 200)), "99 offsets were read where the table holds 100"),
        (held((101, 200)), held((100, 150)), "99 offsets were read where the table holds 50"),
        (
            held((100, 120), (140, 150)),
            held((110, 130), (145, 155)),
            "not read: [120, 130) and 1 more",
        ),
    ],
)
def test_a_replay_has_to_read_every_offset_that_stands_there(read, landed, said):
    """R4: as many offsets as before may still be other offsets."""
    shorter = shorter_than_landed(PLAN.ranges, read, landed)
    assert [said in text for text in shorter] == ([] if said is None else [True])


def test_rows_that_may_stay_are_of_this_log_and_the_only_copies():
    """Others, a record that Spark has missed above all, stop the landing as before (R4)."""
    range_ = PLAN.ranges[0]
    identity = range_.identity

    def rows(*offsets):
        return {
            identity: LandedRange(identity, len(offsets), tuple(OffsetRange(*o) for o in offsets))
        }

    missing = unread(PLAN.ranges, rows((100, 110), (130, 200)), rows((100, 130)))
    assert missing == {identity: (OffsetRange(110, 130),)}
    assert unread(PLAN.ranges, rows((100, 200)), rows((100, 130))) == {}
    assert unread(PLAN.ranges, {}, {}) == {}
    covered = head(coverage=Places({identity: (OffsetRange(0, 115),)}))
    assert of_this_log(missing, covered, []) == {identity: (OffsetRange(110, 115),)}
    other = plan(planned(120, 140))
    assert of_this_log(missing, head(), [other]) == {identity: (OffsetRange(120, 130),)}
    assert of_this_log(missing, head(), []) == {}
    shown = (Gap(OffsetRange(110, 112), "hole"), Gap(OffsetRange(112, 130), "record"))
    assert only_copies(missing[identity], shown) == (OffsetRange(110, 112),)
    pieces = Places({identity: (OffsetRange(110, 112),)}).rest([range_.as_coordinates])
    assert [(p.start_offset, p.end_offset) for p in pieces] == [(100, 110), (112, 200)]
