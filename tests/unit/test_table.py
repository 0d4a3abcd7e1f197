"""What gets into SQL and into commits."""

from tests.unit.build import ID, planned
from tideline.core.table import commit_mark, read_mark


def test_a_mark_is_read_back_and_others_are_not():
    """The table's history also holds commits of other people."""
    mark = commit_mark(ledger_id="l", plan_id="p", run_id="r", token=4, ranges=[planned()])
    assert read_mark(mark)["ranges"] == [[ID, 0, 0, 100, 200]]
    assert read_mark("by hand") is None
    assert read_mark('{"note": 1}') is None
    assert read_mark(None) is None
