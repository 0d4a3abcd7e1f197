"""How long quarantined rows are kept, and which of them an audit does not miss: pure rules."""

from datetime import timedelta
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.build import ID, NOW
from tideline.model.decoding import DecodePlan, DecodeRecord
from tideline.model.maintenance import ExpiredRows
from tideline.model.offsets import (
    CoordinateRange,
    OffsetRange,
    PartitionIdentity,
    intersect,
    subtract,
    union,
)
from tideline.model.places import Places
from tideline.rules.upkeep import bounding_ranges, plans_before, still_expired

LOG = PartitionIdentity(ID, 0, 0)
offsets = st.sets(st.integers(0, 30))


def closed(plan_id, days, *spans):
    """A plan that was verified so many days ago."""
    plan = DecodePlan(
        plan_id=plan_id,
        run_id="r",
        frozen_at=NOW - timedelta(days=1000),
        raw_table_id="t",
        raw_version=3,
        ranges=coordinates(*spans),
        removes=(),
        parts=(),
        tombstones="keep",
        event_date=None,
        transform=None,
        max_share=0.05,
        table_uri="/lake/typed",
        quarantine_uri="/lake/quarantine",
    )
    return DecodeRecord(plan, "done", closed_at=NOW - timedelta(days=days))


def coordinates(*spans):
    return tuple(CoordinateRange("orders", ID, 0, 0, *span) for span in spans)


def ranges(found):
    return union(OffsetRange(n, n + 1) for n in found)


def spans(places):
    return [(r.start_offset, r.end_offset) for r in places.get(LOG, ())]


def test_the_last_closing_of_a_plan_counts():
    """So many days, to the second; what is cleared is kept as long once more."""
    records = [closed("old", 90), closed("new", 89), closed("again", 200), closed("again", 5)]
    assert plans_before(records, NOW, 90) == {"old"}
    assert plans_before(records, NOW + timedelta(days=85), 90) == {"old", "new", "again"}


@given(offsets, offsets)
def test_a_bounding_range_holds_what_goes_and_nothing_that_stays(gone, kept):
    """And no two of them could be one."""
    kept = kept - gone
    found = bounding_ranges(Places({LOG: ranges(gone)}), Places({LOG: ranges(kept)}))[LOG]
    assert subtract(ranges(gone), found) == ()
    assert intersect(ranges(kept), found) == ()
    for one, other in pairwise(found):
        assert any(one.end_offset <= n < other.start_offset for n in kept)


def test_other_logs_have_nothing_to_say():
    """Neither partitions nor generations share offsets."""
    other = PartitionIdentity(ID, 1, 0)
    found = bounding_ranges(Places({LOG: ranges({1, 9})}), Places({other: ranges({5})}))
    assert spans(found) == [(1, 10)]


def let_go(*spans):
    return ExpiredRows("quarantine-1", "maintain", "", NOW, coordinates(*spans))


def decoded(*spans):
    return closed("d", 0, *spans)


def test_what_was_decoded_again_is_there_again():
    """And may be let go once more; what was decoded before is not."""
    assert spans(still_expired([let_go((0, 4))])) == [(0, 4)]
    assert spans(still_expired([decoded((0, 4)), let_go((0, 4))])) == [(0, 4)]
    assert spans(still_expired([let_go((0, 4)), decoded((1, 3))])) == [(0, 1), (3, 4)]
    assert spans(still_expired([let_go((0, 4)), decoded((0, 9)), let_go((2, 3))])) == [(2, 3)]
    assert still_expired([let_go((0, 4)), decoded((0, 9))]) == {}
