"""What batches of the log say about offsets without a row (KIP-98)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tideline.kafka.gaps import AbortedTransaction, BatchHeader, FetchedBatches, explain_gaps
from tideline.model.observation import Gap
from tideline.model.offsets import OffsetRange, subtract, union
from tideline.rules.verification import assign


def records(first, last, producer=-1, count=None, transactional=None):
    return BatchHeader(
        first,
        last,
        records=last - first + 1 if count is None else count,
        producer_id=producer,
        is_transactional=producer >= 0 if transactional is None else transactional,
    )


def marker(offset, producer, abort):
    return BatchHeader(
        offset,
        offset,
        records=1,
        producer_id=producer,
        is_control=True,
        is_transactional=True,
        is_abort_marker=abort,
    )


def reasons(missing, batches, aborted=(), start=0, end=None):
    stop = batches[-1].last_offset + 1 if end is None else end
    found = explain_gaps(
        [OffsetRange(*m) for m in missing],
        FetchedBatches(start, stop, tuple(batches), tuple(AbortedTransaction(*a) for a in aborted)),
    )
    return [(g.offsets.start_offset, g.offsets.end_offset, g.reason) for g in found]


def test_a_commit_marker_takes_an_offset():
    """It is a control batch."""
    assert reasons([(3, 4)], [records(0, 2, 7), marker(3, 7, abort=False)]) == [(3, 4, "marker")]


def test_an_aborted_transaction_s_records_and_marker_are_told_apart():
    """Both are no rows, for different reasons."""
    log = [records(0, 2, 7), marker(3, 7, abort=True)]
    assert reasons([(0, 4)], log, [(7, 0)]) == [(0, 3, "aborted"), (3, 4, "marker")]


def test_after_its_abort_marker_a_producer_s_records_count_again():
    """The next transaction of the same producer was committed."""
    log = [records(0, 2, 7), marker(3, 7, abort=True), records(4, 5, 7), marker(6, 7, abort=False)]
    assert reasons([(4, 6)], log, [(7, 0)]) == [(4, 6, "record")]


def test_another_producer_s_records_between_are_not_aborted():
    """Transactions interleave."""
    log = [records(0, 1, 7), records(2, 3, 8), records(4, 5, 7), marker(6, 7, abort=True)]
    found = reasons([(0, 7)], log, [(7, 0)])
    assert found == [(0, 2, "aborted"), (2, 4, "record"), (4, 6, "aborted"), (6, 7, "marker")]


def test_a_transaction_that_began_before_the_stretch_is_still_aborted():
    """The broker names every aborted transaction that overlaps the fetch."""
    log = [records(10, 12, 7), marker(13, 7, abort=True)]
    assert reasons([(10, 13)], log, [(7, 2)], start=10) == [(10, 13, "aborted")]


def test_records_without_a_transaction_are_never_aborted():
    """An idempotent producer has an id as well."""
    log = [records(0, 2, 7, transactional=False)]
    assert reasons([(0, 3)], log, [(7, 0)]) == [(0, 3, "record")]


@pytest.mark.parametrize(
    ("batches", "end", "expected"),
    [
        ([records(0, 4), records(10, 14)], 15, (5, 10, "hole")),
        ([records(10, 14)], 15, (5, 10, "hole")),
        ([], 15, (5, 10, "hole")),
        ([records(0, 14, count=10)], 15, (5, 10, "compacted_batch")),
        ([records(0, 14)], 15, (5, 10, "record")),
    ],
)
def test_what_is_no_evidence(batches, end, expected):
    """A lost segment, a compacted batch, a record that is there."""
    assert reasons([(5, 10)], batches, end=end) == [expected]


def test_nothing_outside_the_stretch_is_spoken_of():
    """What was not fetched was not seen."""
    assert reasons([(0, 20)], [records(5, 9)], start=5, end=10) == [(5, 10, "record")]


intervals = st.lists(
    st.tuples(st.integers(0, 60), st.integers(1, 6)).map(lambda t: OffsetRange(t[0], t[0] + t[1])),
    max_size=12,
).map(union)


@given(intervals, st.lists(st.tuples(st.integers(1, 5), st.booleans()), max_size=15))
def test_every_missing_offset_gets_exactly_one_reason(missing, pieces):
    """Whatever the batches and holes are."""
    batches, at = [], 0
    for length, is_hole in pieces:
        if not is_hole:
            batches.append(records(at, at + length - 1))
        at += length
    gaps = explain_gaps(missing, FetchedBatches(0, 70, tuple(batches)))
    assert union(g.offsets for g in gaps) == missing
    assert sum(len(g.offsets) for g in gaps) == sum(len(m) for m in missing)


@given(intervals, intervals)
def test_known_reasons_are_used_first_and_the_rest_is_left(missing, shown):
    """Explained and left make up what is missing."""
    explained, left = assign(missing, [Gap(s, "marker") for s in shown])
    assert left == subtract(missing, shown)
    assert union((g.offsets for g in explained), left) == missing
