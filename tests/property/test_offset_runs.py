"""Which offsets a file holds, and which twice, in whatever order they were written."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tideline.model.offsets import OffsetRange
from tideline.table.arrays import copies, runs

OFFSETS = st.lists(st.integers(0, 30), max_size=60)


@given(OFFSETS)
def test_runs_hold_each_offset_once_in_order_and_never_touch(offsets: list[int]) -> None:
    found = runs(np.array(offsets, dtype=np.int64))
    assert [o for r in found for o in _offsets(r)] == sorted(set(offsets))
    assert all(a.end_offset < b.start_offset for a, b in itertools.pairwise(found))


@given(OFFSETS)
def test_copies_are_what_is_there_beyond_the_first(offsets: list[int]) -> None:
    surplus = Counter({o: n - 1 for o, n in Counter(offsets).items() if n > 1})
    found = copies(np.array(offsets, dtype=np.int64))
    assert {o for r, _ in found for o in _offsets(r)} == set(surplus)
    assert [n for _, n in found] == [sum(surplus[o] for o in _offsets(r)) for r, _ in found]


def _offsets(found: OffsetRange) -> range:
    return range(found.start_offset, found.end_offset)
