"""Coverage as a picture: each offset has one fate, and the fates fit what the ledger says."""

from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.build import (
    ID,
    NOW,
    OTHER_ID,
    head,
    observation,
    plan,
    planned,
    position,
    seen,
    topic,
)
from tideline.model.head import Headroom, LandedDay
from tideline.model.incident import Finding, Incident
from tideline.model.offsets import Beginning, OffsetRange, PartitionIdentity, intersect, union
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import VerifiedRange
from tideline.model.run import RunRecord, TableCommit
from tideline.page.bands import Painter, lag_spread
from tideline.rules.advance import count_landed
from tideline.rules.partition_status import partition_statuses

LOG = PartitionIdentity(ID, 0, 0)


def covered(*pairs, identity=LOG):
    return Places({identity: tuple(OffsetRange(*p) for p in pairs)})


def bands(known, observed=None, open_runs=(), incidents=()):
    """Kind and offsets, by topic id and generation."""
    painter = Painter(known, open_runs, incidents)
    return {
        (log.identity.topic_id, log.identity.generation): [
            (b.kind, b.offsets.start_offset, b.offsets.end_offset) for b in log.bands
        ]
        for status in partition_statuses(known, observed, "read_committed")
        for log in painter.paint(status)
    }


def test_below_its_beginning_a_log_is_that_of_an_older_generation():
    """It was cut above what had been read: nothing is landed there, and explain says the same."""
    cut = head(position(0, generation=1), beginnings=(Beginning(replace(LOG, generation=1), 2),))
    log = observation(topic(seen(0, 4)))
    assert bands(cut, log) == {(ID, 0): [("unread", 0, 2)], (ID, 1): [("unread", 2, 4)]}
    record = RunRecord("r", "live", "planned", "d", NOW, plan=plan(planned(0, 2)))
    finding = Finding("unreadable_record", "", "", "orders", ID, 0, (OffsetRange(0, 1),))
    broken = Incident("incident-1", "r", NOW, finding)
    assert bands(cut, log, [record], [broken]) == {
        (ID, 0): [("at_stake", 0, 1), ("open", 1, 2)],
        (ID, 1): [("unread", 2, 4)],
    }
    on = head(position(3, generation=1), beginnings=cut.beginnings)
    assert bands(on, log) == {(ID, 1): [("unread", 3, 4)]}


def test_every_fate_in_its_place():
    """Landed, lost, backfilled, a gap, a frozen plan, and what is unread."""
    known = head(
        position(100),
        coverage=covered((10, 40), (50, 80)),
        backfilled=covered((10, 20)),
        accepted_loss=covered((40, 50)),
    )
    record = RunRecord("r", "live", "planned", "d", NOW, plan=plan(planned(100, 150)))
    found = bands(known, observation(topic(seen(0, 200))), [record])
    assert found[ID, 0] == [
        ("backfilled", 10, 20),
        ("landed", 20, 40),
        ("accepted_loss", 40, 50),
        ("landed", 50, 80),
        ("gap", 80, 100),
        ("open", 100, 150),
        ("unread", 150, 200),
    ]


def test_what_is_at_stake_is_no_unread_record():
    """An open incident is about these offsets."""
    finding = Finding("retention_loss", "100", "130", "orders", ID, 0, (OffsetRange(100, 130),))
    found = bands(
        head(position(100), coverage=covered((0, 100))),
        observation(topic(seen(130, 200))),
        incidents=[Incident("incident-1", "r", NOW, finding)],
    )
    assert found[ID, 0] == [("landed", 0, 100), ("at_stake", 100, 130), ("unread", 130, 200)]


def test_generations_and_former_topics_have_logs_of_their_own():
    """The current one is last; a topic id that the head no longer names keeps its rows."""
    now_read = PartitionIdentity(ID, 1, 0)
    former = PartitionIdentity(OTHER_ID, 0, 0)
    known = head(
        position(90, generation=1),
        coverage=covered((0, 100))
        | covered((60, 90), identity=now_read)
        | covered((5, 8), identity=former),
        beginnings=(Beginning(now_read, 60),),
    )
    found = bands(known, observation(topic(seen(0, 95))))
    assert list(found) == [(ID, 0), (OTHER_ID, 0), (ID, 1)]
    assert found[ID, 1] == [("landed", 60, 90), ("unread", 90, 95)]
    assert found[ID, 0] == [("landed", 0, 100)]


def test_another_topic_s_end_is_no_end_of_ours():
    """Created again: its offsets mean something else, so the end is what the last run saw."""
    known = head(position(100, seen_end=120))
    (status,) = partition_statuses(known, observation(topic(seen(0, 7), topic_id=OTHER_ID)), "x")
    assert (status.end_offset, status.log_start_offset, status.lag) == (120, None, 20)


def test_a_retired_partition_keeps_its_rows():
    """It has no position, and so no lag."""
    known = head(retired=(position(50),), coverage=covered((0, 50)))
    (status,) = partition_statuses(known, None, "read_committed")
    assert (status.topic, status.lag) == ("orders", None)
    assert bands(known)[ID, 0] == [("landed", 0, 50)]


ranges = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 20)).map(lambda p: OffsetRange(p[0], sum(p))),
    max_size=4,
)


@given(ranges, ranges, ranges, st.integers(0, 80), st.integers(0, 100))
def test_bands_never_overlap_and_lose_nothing(landed, by_backfill, lost, next_offset, end):
    """Whatever the ledger says, each offset has one band, and covered ones are never unread."""
    known = head(
        position(next_offset),
        coverage=Places({LOG: union(landed)}),
        backfilled=Places({LOG: union(by_backfill)}),
        accepted_loss=Places({LOG: union(lost)}),
    )
    found = [
        (kind, OffsetRange(start, stop))
        for kind, start, stop in bands(known, observation(topic(seen(0, end))))[ID, 0]
    ]
    for (_, one), (_, other) in pairwise(found):
        assert one.end_offset <= other.start_offset
    painted = union(r for k, r in found if k in ("landed", "backfilled", "accepted_loss"))
    assert painted == union(landed, lost)
    missing = [r for k, r in found if k in ("gap", "unread")]
    assert not intersect(missing, union(landed, lost))


def test_rows_are_counted_by_day_and_backfills_are_told_apart():
    """Half of a commit's rows are half of its bytes; the oldest days are forgotten."""
    commit = TableCommit("t", 1, 1, rows=100, bytes=2000)
    half = VerifiedRange(planned(0, 50), 50, ())
    known = head(position(0))
    live = count_landed(known, plan(planned(0, 50)), commit, [half], date(2026, 1, 1))
    assert live.days == (LandedDay(date(2026, 1, 1), 50, 1000, unread=50),)
    assert live.backfilled == NOWHERE
    frozen = plan(planned(0, 50), lane="backfill")
    both = count_landed(live, frozen, commit, [half], date(2026, 1, 1))
    assert both.days == (LandedDay(date(2026, 1, 1), 100, 2000, unread=50),)
    assert both.backfilled == covered((0, 50))
    for day in range(2, 20):
        both = count_landed(both, frozen, commit, [half], date(2026, 1, day))
    assert [d.day.day for d in both.days] == list(range(6, 20))
    assert count_landed(known, frozen, replace(commit, rows=0), [], date(2026, 1, 1)).days == ()


def test_a_day_knows_its_largest_lag_and_its_least_headroom():
    commit = TableCommit("t", 1, 1, rows=50, bytes=50)
    half, day = VerifiedRange(planned(0, 50), 50, ()), date(2026, 1, 1)
    found = head(position(0))
    for left, over in ((30.0, 10), (-5.0, 900), (60.0, 0)):
        frozen = replace(plan(planned(0, 50)), offset_lag=over)
        written = frozen.frozen_at + timedelta(seconds=left) - timedelta(milliseconds=1000)
        near = Headroom("orders", 0, 0, written, 1000)
        found = count_landed(replace(found, headroom=(near,)), frozen, commit, [half], day)
    (told,) = found.days
    assert (told.rows, told.unread, told.headroom_seconds) == (150, 950, -5.0)


def test_the_spread_of_lags():
    """Unknown lags do not count."""
    assert lag_spread([None]) is None
    assert lag_spread([5, None, 1, 100]) == (106, 100, 5, 100)
