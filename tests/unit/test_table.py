"""What gets into SQL and into commits."""

from tests.unit.build import ID, planned
from tideline.table.schema import commit_metadata, read_commit_metadata


def test_a_mark_is_read_back_and_others_are_not():
    """The table's history also holds commits of other people."""
    mark = commit_metadata(ledger_id="l", plan_id="p", run_id="r", token=4, ranges=[planned()])
    assert read_commit_metadata(mark)["ranges"] == [[ID, 0, 0, 100, 200]]
    assert read_commit_metadata("by hand") is None
    assert read_commit_metadata('{"note": 1}') is None
    assert read_commit_metadata(None) is None
