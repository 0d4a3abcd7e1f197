"""Interval arithmetic against sets of integers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tideline.model.offsets import (
    OffsetRange,
    covered_until,
    intersect,
    overlaps,
    subtract,
    total,
    union,
)

ranges = st.builds(
    lambda start, length: OffsetRange(start, start + length), st.integers(0, 60), st.integers(0, 15)
)
groups = st.lists(ranges, max_size=12)


def offsets(items):
    return {o for r in items for o in range(r.start_offset, r.end_offset)}


def is_normalized(items):
    return all(len(r) for r in items) and all(
        a.end_offset < b.start_offset for a, b in pairwise(items)
    )


@given(groups, groups)
def test_set_operations(one, other):
    """union, subtract and intersect are the sets' operations, and normalized."""
    for operation, expected in (
        (union, offsets(one) | offsets(other)),
        (subtract, offsets(one) - offsets(other)),
        (intersect, offsets(one) & offsets(other)),
    ):
        result = operation(one, other)
        assert offsets(result) == expected
        assert is_normalized(result)


@given(groups)
def test_overlaps_are_what_stands_in_two_ranges(items):
    """An offset is an overlap exactly if at least two ranges hold it."""
    twice = {
        o for o in offsets(items) if sum(r.start_offset <= o < r.end_offset for r in items) > 1
    }
    assert offsets(overlaps(items)) == twice


@given(groups, st.integers(0, 80))
def test_covered_until_stops_at_the_first_hole(items, start):
    """Everything in between is covered, the result is not."""
    reached = covered_until(items, start)
    held = offsets(items)
    assert set(range(start, reached)) <= held
    assert reached not in held


@given(groups)
def test_total_counts_distinct_offsets(items):
    """Copies count once."""
    assert total(items) == len(offsets(items))
