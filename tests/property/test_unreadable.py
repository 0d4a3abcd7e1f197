"""Whatever the unreadable offsets are, exactly they are found, and exactly they are left out."""

from hypothesis import given
from hypothesis import strategies as st

from tests.worlds.build import planned
from tideline.model.spark_job import readable_groups
from tideline.rules.unreadable import bisect

places = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 39)), max_size=12)
lengths = st.lists(st.integers(1, 40), min_size=1, max_size=4)


def offsets(ranges):
    """Every (partition, offset) in ranges."""
    return [(r.partition, o) for r in ranges for o in range(r.start_offset, r.end_offset)]


@given(lengths, places)
def test_what_cannot_be_read_is_found_and_the_rest_is_read(lengths, places):
    """Each offset is read once or found; no reading asks twice for a partition."""
    ranges = [planned(0, length, partition=p) for p, length in enumerate(lengths)]
    bad = places & set(offsets(ranges))

    def attempt(part):
        assert len({r.topic_partition for r in part}) == len(part) > 0
        return "cannot be read" if bad & set(offsets(part)) else None

    found = [u.range for u in bisect(ranges, attempt, most=1000)] if bad else []
    assert sorted(offsets(found)) == sorted(bad)
    groups = readable_groups(ranges, found)
    for group in groups:
        assert len({r.topic_partition for r in group}) == len(group) > 0
    left = [at for group in groups for at in offsets(group)]
    assert sorted(left) == sorted(set(offsets(ranges)) - bad)
