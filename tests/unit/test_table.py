"""What gets into SQL and into commits."""

import pytest

from tests.unit.build import ID, planned
from tideline.core.table import commit_mark, coordinates_predicate, read_mark


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
    with pytest.raises(ValueError, match="badly formed"):
        coordinates_predicate([planned(topic_id=evil)])


def test_a_mark_is_read_back_and_others_are_not():
    """The table's history also holds commits of other people."""
    mark = commit_mark(ledger_id="l", plan_id="p", run_id="r", token=4, ranges=[planned()])
    assert read_mark(mark)["ranges"] == [[ID, 0, 0, 100, 200]]
    assert read_mark("by hand") is None
    assert read_mark('{"note": 1}') is None
    assert read_mark(None) is None
