"""The predicate that ties a write to its plan."""

import pytest

from tests.unit.build import ID, OTHER_ID, planned
from tideline.table.predicate import coordinates_predicate


def test_the_predicate_is_made_of_a_uuid_and_integers():
    """Exactly the planned coordinates, end exclusive."""
    assert coordinates_predicate([planned(100, 200, partition=3)]) == (
        f"(topic_id = '{ID}' AND generation = 0 AND partition = 3"
        " AND offset >= 100 AND offset < 200)"
    )


def test_a_topic_s_name_never_reaches_sql():
    """A name like x' OR '1'='1 is legal nowhere in it, and a forged id is refused."""
    evil = "x' OR '1'='1"
    assert evil not in coordinates_predicate([planned(name=evil)])
    with pytest.raises(ValueError, match="not a UUID"):
        coordinates_predicate([planned(topic_id=evil)])


def test_few_ranges_have_a_disjunct_each():
    """So that each file is skipped by its own partition's bounds."""
    assert coordinates_predicate(planned(partition=p) for p in range(32)).count(" OR ") == 31


def test_many_ranges_share_disjuncts():
    """Ten thousand of them are no ten thousand disjuncts."""
    text = coordinates_predicate(planned(p, p + 1, partition=p) for p in range(10_000))
    assert text.count(" OR ") == 31
    assert "partition >= 313 AND partition <= 625 AND offset >= 313 AND offset < 626" in text


def test_partitions_far_apart_and_other_topics_do_not_share():
    """An array from 0 to a million would hold next to nothing."""
    near = [planned(partition=p) for p in range(64)]
    far = planned(partition=1_000_000)
    text = coordinates_predicate([*near, far, planned(topic_id=OTHER_ID)])
    assert len(text) < 10_000
    assert "partition = 1000000 AND" in text
    assert text.count(OTHER_ID) == 1
