"""A table's log that is held open, while another one comes to its address."""

import shutil

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable

from tideline.table.log import NewestTable


def made(folder, name):
    """A table whose only commit says its name."""
    said = CommitProperties(custom_metadata={"userMetadata": name})
    DeltaTable.create(str(folder), pa.schema([("k", pa.string())]), commit_properties=said)
    return folder


def told(kept):
    return [commit["userMetadata"] for commit in kept.history(kept.newest())]


@pytest.mark.parametrize("fails", [False, True])
def test_nothing_of_the_log_before_is_known(tmp_path, monkeypatch, fails):
    """Found at the next look, or after one that failed: both are at the same version."""
    here, there = (made(tmp_path / name, name) for name in ("here", "there"))
    kept = NewestTable(str(here), {})
    assert told(kept) == ["here"]
    if fails:

        def away(known, read):
            raise OSError("away")

        with monkeypatch.context() as store:
            store.setattr(kept._log, "newest", away)
            with pytest.raises(OSError, match="away"):
                kept.newest()
    shutil.rmtree(here)
    shutil.copytree(there, here)
    assert told(kept) == ["there"]
