"""A plan against what the table holds."""

import pytest

from tests.unit.build import ID, planned
from tideline.core.offsets import OffsetRange, PartitionIdentity
from tideline.core.verification import LandedRange, verify_ranges

IDENTITY = PartitionIdentity(ID, 0, 0)


def checked(*offsets, rows=None, gaps="refuse"):
    pieces = tuple(OffsetRange(*o) for o in offsets)
    count = sum(len(p) for p in pieces) if rows is None else rows
    landed = {IDENTITY: LandedRange(IDENTITY, count, pieces)} if pieces else {}
    return verify_ranges([planned(100, 200)], landed, gaps=gaps)


def test_every_offset_with_one_row_holds():
    """The plain topic: count == end - start."""
    good, bad = checked((100, 200))
    assert [v.rows for v in good] == [100]
    assert not bad


@pytest.mark.parametrize("policy", ["refuse", "explain"])
def test_a_missing_offset_does_not_hold(policy):
    """Explain has no evidence to show yet, so it admits nothing."""
    good, bad = checked((100, 150), (151, 200), gaps=policy)
    assert not good
    assert bad[0].missing == (OffsetRange(150, 151),)
    assert "no row for [150, 151)" in str(bad[0])


def test_no_rows_at_all_do_not_hold():
    """An empty read of a full range is the silent loss that Spark reports as success."""
    assert checked()[1][0].missing == (OffsetRange(100, 200),)


def test_transactional_admits_gaps_and_records_them():
    """Markers and aborted records take offsets."""
    good, bad = checked((100, 150), gaps="transactional")
    assert good[0].gaps == (OffsetRange(150, 200),)
    assert good[0].gap_reason == "transaction marker or aborted record"
    assert not bad


@pytest.mark.parametrize("policy", ["refuse", "transactional", "compacted"])
def test_no_policy_admits_a_second_copy(policy):
    """More rows than distinct offsets."""
    _, bad = checked((100, 200), rows=101, gaps=policy)
    assert bad[0].duplicates == 1
