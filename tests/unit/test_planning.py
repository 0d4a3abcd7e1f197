"""Ranges of one run: what is read, what is left, and who waits."""

import pytest

from tests.worlds.build import ID, OTHER_ID, head, observation, position, seen, topic
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.places import Places
from tideline.rules.planning import move_over_coverage, plan_ranges, share_fairly

NO_CAP = 10**9


def ranges(known, now, run=NO_CAP, partition=NO_CAP, isolation="read_committed", blocked=()):
    proposal = plan_ranges(
        known,
        now,
        isolation_level=isolation,
        max_records_per_run=run,
        max_records_per_partition=partition,
        blocked=frozenset(blocked),
    )
    return [(r.partition, r.start_offset, r.end_offset) for r in proposal.ranges]


def test_a_range_goes_from_the_next_offset_to_the_end():
    """Half-open on both sides of a run: the last record is read once."""
    assert ranges(head(position(100)), observation(topic(seen(end=101)))) == [(0, 100, 101)]


def test_nothing_new_plans_nothing():
    """An empty range would become a Spark task."""
    assert ranges(head(position(100)), observation(topic(seen(end=100)))) == []


def test_read_committed_stops_at_the_last_stable_offset():
    """An open transaction's records are not there yet."""
    now = observation(topic(seen(end=200, stable=150)))
    assert ranges(head(position(100)), now) == [(0, 100, 150)]
    assert ranges(head(position(100)), now, isolation="read_uncommitted") == [(0, 100, 200)]


def test_another_incarnation_gets_no_range():
    """Detection reports it; planning must not offer to read it."""
    now = observation(topic(seen(end=500), topic_id=OTHER_ID))
    assert ranges(head(position(100)), now) == []


def test_a_blocked_partition_gets_no_range_and_costs_the_others_nothing():
    """An open incident keeps it where it is; its share of the cap goes to the rest."""
    known = head(position(100), position(100, partition=1))
    now = observation(topic(seen(end=200), seen(end=200, partition=1)))
    assert ranges(known, now, run=100, blocked=[("orders", 0)]) == [(1, 100, 200)]


def test_a_busy_partition_does_not_starve_the_others():
    """Small ones are served in full, the busy one takes what is left."""
    known = head(position(0), position(0, partition=1), position(0, partition=2))
    now = observation(topic(seen(end=10_000), seen(end=10, partition=1), seen(end=20, partition=2)))
    assert ranges(known, now, run=100) == [(0, 0, 70), (1, 0, 10), (2, 0, 20)]


def test_what_the_caps_leave_is_the_lag():
    """Counted in offsets, over all partitions."""
    proposal = plan_ranges(
        head(position(0)),
        observation(topic(seen(end=1000))),
        isolation_level="read_committed",
        max_records_per_run=300,
        max_records_per_partition=200,
    )
    assert (proposal.estimated_records, proposal.offset_lag) == (200, 800)


def test_bytes_are_estimated_from_rows_landed_before():
    """In the table, not in the log; unknown before the first run."""
    now = observation(topic(seen(end=200)))
    estimates = [
        plan_ranges(
            head(position(100), bytes_per_record=known),
            now,
            isolation_level="read_committed",
            max_records_per_run=NO_CAP,
            max_records_per_partition=NO_CAP,
        ).estimated_bytes
        for known in (None, 12.5)
    ]
    assert estimates == [None, 1250]


def test_covered_offsets_are_not_read_again():
    """R12: the live lane moves over what a backfill has landed."""
    landed = Places({PartitionIdentity(ID, 0, 0): (OffsetRange(90, 150),)})
    known = head(position(100), coverage=landed)
    assert ranges(known, observation(topic(seen(end=200)))) == [(0, 150, 200)]


def covered(*ranges):
    return Places({PartitionIdentity(ID, 0, 0): tuple(OffsetRange(*r) for r in ranges)})


def test_a_range_ends_where_landed_offsets_begin():
    """R12: what lies behind them is for the next run, and counts as lag."""
    known = head(position(100), coverage=covered((120, 150), (160, 170)))
    now = observation(topic(seen(end=200)))
    assert ranges(known, now) == [(0, 100, 120)]
    proposal = plan_ranges(
        known,
        now,
        isolation_level="read_committed",
        max_records_per_run=NO_CAP,
        max_records_per_partition=NO_CAP,
    )
    assert (proposal.estimated_records, proposal.offset_lag) == (20, 40)


def test_the_head_moves_over_landed_offsets_with_what_is_seen_now():
    """The epoch of before need not reach that far: a false truncation would follow."""
    known = head(position(100, epoch=3), coverage=covered((90, 150)))
    now = observation(topic(seen(end=200, epoch=7)))
    (moved,) = move_over_coverage(known, now, frozenset()).positions
    assert (moved.next_offset, moved.leader_epoch, moved.seen_end) == (150, 7, 200)
    assert move_over_coverage(known, now, frozenset({("orders", 0)})) == known
    elsewhere = head(position(100), coverage=covered((110, 150)))
    assert move_over_coverage(elsewhere, now, frozenset()) == elsewhere


@pytest.mark.parametrize(
    ("available", "budget", "turn", "shares"),
    [
        ([5, 5, 5], 100, 0, [5, 5, 5]),
        ([100, 100], 10, 0, [5, 5]),
        ([100, 100, 100], 10, 0, [4, 3, 3]),
        ([100, 100, 100], 10, 1, [3, 4, 3]),
        ([1, 100, 100], 10, 0, [1, 5, 4]),
        ([9, 9, 9], 1, 2, [0, 0, 1]),
        ([], 10, 0, []),
        ([0, 7], 3, 0, [0, 3]),
    ],
)
def test_shares(available, budget, turn, shares):
    """Max-min fairness; the indivisible rest goes round with the turns."""
    assert share_fairly(available, budget, turn) == shares
