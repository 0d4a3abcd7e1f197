"""What gets into SQL and into commits."""

import json

import pytest

from tests.worlds.build import ID, planned
from tideline.errors import NewerFormat
from tideline.table.schema import commit_metadata, read_commit_metadata


def test_a_mark_is_read_back_and_others_are_not():
    """The table's history also holds commits of other people."""
    mark = commit_metadata(ledger_id="l", plan_id="p", run_id="r", token=4, ranges=[planned()])
    assert read_commit_metadata(mark, "here")["ranges"] == [[ID, 0, 0, 100, 200]]
    assert read_commit_metadata("by hand", "here") is None
    assert read_commit_metadata('{"note": 1}', "here") is None
    assert read_commit_metadata(None, "here") is None
    for other in ("ledger", 0, True, None):
        assert read_commit_metadata(json.dumps({"tideline": other}), "here") is None


def test_a_commit_of_a_newer_version_does_not_pass_for_somebody_else_s():
    """Its rows might be removed or reported as foreign."""
    with pytest.raises(NewerFormat, match=r"^table /t: version 4: .* format 2; .* to 1: upgrade"):
        read_commit_metadata('{"tideline": 2, "plan": "p"}', "table /t: version 4")
