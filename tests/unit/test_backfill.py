"""What a window means in offsets, what a backfill reads, and what of it is gone."""

from contextlib import nullcontext
from datetime import timedelta

import pytest

from tests.worlds.build import ID, NOW, OTHER_ID, head, observation, position, seen, topic
from tideline.errors import BadInput, ServiceAway, WindowUnavailable
from tideline.model.incident import Finding
from tideline.model.observation import TimedOffset
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.model.request import (
    RequestedRange,
    ResolvedTimestamp,
    RunRequest,
    Window,
    WindowBoundary,
)
from tideline.rules.backfill import (
    AskedOffsets,
    asked_by_ranges,
    asked_by_window,
    find_window_boundary,
    findings_against,
    is_about,
    plan_backfill,
)

IDENTITY = PartitionIdentity(ID, 0, 0)
HOUR = timedelta(hours=1)
PAST_MS = int((NOW - HOUR).timestamp() * 1000)


def boundary(found, start=0, end=200, next_offset=0):
    place = seen(start=start, end=end)
    return find_window_boundary(NOW - HOUR, position(next_offset), place, found, NOW)


def proposal(asked, *partitions, **facts):
    known = head(position(0), **facts)
    looked = observation(topic(*partitions))
    return plan_backfill(known, looked, {("orders", 0): asked}, "read_committed")


def planned(found):
    return [(r.partition, r.start_offset, r.end_offset) for r in found.ranges]


def covered(*ranges):
    return Places({IDENTITY: tuple(OffsetRange(*r) for r in ranges)})


def test_an_instant_is_the_first_record_that_is_not_older():
    """As Kafka's look-up finds it."""
    assert boundary(TimedOffset(120, PAST_MS)) == WindowBoundary("orders", IDENTITY, 120)


def test_an_instant_that_no_record_reaches_is_the_end_seen_before_the_look_up():
    """Whatever is written meanwhile belongs to the next window."""
    assert boundary(None, end=200) == WindowBoundary("orders", IDENTITY, 200)


@pytest.mark.parametrize(
    ("found", "start", "expired"),
    [(TimedOffset(50, PAST_MS), 50, True), (TimedOffset(51, PAST_MS), 50, False),
     (TimedOffset(0, PAST_MS), 0, False), (None, 200, True)],
)  # fmt: skip
def test_a_log_that_begins_at_the_instant_may_have_lost_what_belongs_to_it(found, start, expired):
    """Unless it begins at 0."""
    assert boundary(found, start=start).expired is expired


def test_an_emptied_log_has_lost_nothing_that_the_live_lane_has_not_read():
    """A quiet topic must not make every window of today unreadable."""
    assert boundary(None, start=200, end=200, next_offset=200).expired is False


def test_a_record_from_the_future_makes_the_look_up_unusable():
    """Records behind it may be older; explicit offsets are offered."""
    with pytest.raises(WindowUnavailable, match=r'in the future.*"end_offset": 200') as refused:
        boundary(TimedOffset(120, int((NOW + HOUR).timestamp() * 1000)))
    assert refused.value.offset == 120
    with pytest.raises(WindowUnavailable, match="9223372036854775807 ms"):
        boundary(TimedOffset(120, 2**63 - 1))


@pytest.mark.parametrize(("ahead", "is_refused"), [(1, False), (300, False), (301, True)])
def test_a_clock_that_is_some_minutes_ahead_is_no_record_from_the_future(ahead, is_refused):
    """Two machines never agree to the second."""
    found = TimedOffset(120, int((NOW + timedelta(seconds=ahead)).timestamp() * 1000))
    with pytest.raises(WindowUnavailable) if is_refused else nullcontext():
        assert boundary(found).offset == 120


def test_neighbours_share_their_instant():
    """[a, b) and [b, c) tile, whatever b is."""
    a, b, c = (
        ResolvedTimestamp(NOW, (WindowBoundary("orders", IDENTITY, o),)) for o in (10, 60, 90)
    )
    assert asked_by_window([position()], a, b) == {("orders", 0): AskedOffsets(10, 60)}
    assert asked_by_window([position()], b, c) == {("orders", 0): AskedOffsets(60, 90)}
    assert asked_by_window([position(generation=1)], a, b) == {}


def test_what_is_known_of_an_instant_stays():
    """A later look-up only adds partitions."""
    other = PartitionIdentity(ID, 0, 1)
    known = ResolvedTimestamp(NOW, (WindowBoundary("orders", IDENTITY, 10),))
    later = ResolvedTimestamp(
        NOW, (WindowBoundary("orders", IDENTITY, 99), WindowBoundary("orders", other, 5))
    )
    assert [b.offset for b in known.joined(later).boundaries] == [10, 5]


def test_the_same_time_in_another_zone_is_the_same_instant():
    """Its key in the ledger."""
    assert (
        ResolvedTimestamp(NOW.astimezone()).key
        == ResolvedTimestamp(NOW).key
        == "2026-01-01T00:00:00Z"
    )


@pytest.mark.parametrize(("start", "end"), [(NOW, NOW), (NOW, NOW - HOUR)])
def test_a_window_has_a_length(start, end):
    """Half-open: an empty one would be no window."""
    with pytest.raises(ValueError, match="not a window"):
        Window(start, end)


def test_a_window_is_read_whole_beyond_the_stream_s_limits():
    """It would not tile otherwise; behind the head, at it, or beyond it."""
    found = proposal(AskedOffsets(20, 180), seen(0, 200))
    assert planned(found) == [(0, 20, 180)]
    assert (found.estimated_records, found.offset_lag, found.gone) == (160, 0, ())


def test_the_part_that_retention_took_is_named_and_the_rest_offered():
    """Both, so that a policy can decide."""
    found = proposal(AskedOffsets(20, 180), seen(100, 200))
    assert planned(found) == [(0, 100, 180)]
    assert [str(g) for g in found.gone] == ["orders-0 [20, 100)"]


def test_rows_that_are_in_the_table_are_not_gone():
    """R3: never reported lost."""
    found = proposal(AskedOffsets(20, 180), seen(100, 200), coverage=covered((0, 90)))
    assert [str(g) for g in found.gone] == ["orders-0 [90, 100)"]
    assert proposal(AskedOffsets(20, 180), seen(100, 200), coverage=covered((0, 100))).gone == ()


def test_a_loss_is_accepted_once():
    """What a decision has excused is not asked about again."""
    assert (
        proposal(AskedOffsets(20, 180), seen(100, 200), accepted_loss=covered((0, 100))).gone == ()
    )


def test_a_window_before_the_log_is_gone_altogether():
    """An empty plan, and what it lacks."""
    found = proposal(AskedOffsets(20, 80), seen(100, 200))
    assert (planned(found), [str(g) for g in found.gone]) == ([], ["orders-0 [20, 80)"])


def test_an_uncertain_start_reaches_down_to_nothing():
    """The log began at the instant's offset when it was looked up."""
    found = proposal(AskedOffsets(100, 180, uncertain=True), seen(100, 200))
    assert planned(found) == [(0, 100, 180)]
    assert str(found.gone[0]).startswith("orders-0 [0, 100) (those of them that were written")


def test_an_instant_that_was_looked_up_late_never_overlaps_what_follows():
    """Its end lies before its start: all of it is gone, and its neighbour is whole."""
    found = proposal(AskedOffsets(100, 60, uncertain=True), seen(100, 200))
    assert (planned(found), found.gone[0].intervals) == ([], (OffsetRange(0, 60),))


def test_an_open_transaction_in_the_window_passes():
    """Nothing above the last stable offset can be read yet."""
    with pytest.raises(ServiceAway, match=r"\[20, 180\) can be read up to 150 only"):
        proposal(AskedOffsets(20, 180), seen(0, 200, stable=150))


def test_an_empty_window_reads_nothing():
    """No record, no plan, nothing wrong."""
    found = proposal(AskedOffsets(50, 50), seen(0, 200))
    assert (found.ranges, found.gone) == ((), ())


def test_named_ranges_must_be_followed_and_readable():
    """Checked against the stream and the broker."""
    known, looked = head(position(0)), observation(topic(seen(0, 200)))

    def asked(*values):
        return asked_by_ranges([RequestedRange(*values)], known, looked, "read_committed")

    assert asked("orders", 0, 10, 200) == {("orders", 0): AskedOffsets(10, 200)}
    with pytest.raises(BadInput, match="does not follow this partition; allowed: orders-0"):
        asked("orders", 7, 10, 20)
    with pytest.raises(BadInput, match="ends past what can be read; allowed: an end of at most 2"):
        asked("orders", 0, 10, 201)


def test_only_findings_about_its_own_logs_stop_a_backfill():
    """What the live lane has lost is no matter to it."""
    loss = Finding("retention_loss", "a", "b", "orders", ID, 0)
    cut = Finding("truncation", "a", "b", "orders", ID, 0)
    other = Finding("topic_recreated", "a", "b", "payments", OTHER_ID)
    whole = Finding("cluster_changed", "a", "b")
    of_ranges = RunRequest(ranges=(RequestedRange("orders", 0, 0, 5),))
    assert findings_against([loss, cut, other, whole], of_ranges) == (cut, whole)
    of_window = RunRequest(Window(NOW - HOUR, NOW))
    assert findings_against([loss, cut, other], of_window) == (cut, other)


def test_a_plan_is_about_logs_that_are_followed():
    """A decision may have moved a partition into another generation."""
    ranges = proposal(AskedOffsets(0, 10), seen(0, 200)).ranges
    assert is_about(head(position(500)), ranges)
    assert not is_about(head(position(500, generation=1)), ranges)
