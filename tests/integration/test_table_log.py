"""A table's log that is held open, while another one comes to its address."""

import shutil

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from tideline.delta import delta_log
from tideline.table import log
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


def test_only_a_look_of_just_now_at_that_version_counts_before_a_commit(tmp_path, monkeypatch):
    kept = NewestTable(str(made(tmp_path / "t", "t")), {})
    assert kept.looked_at_now(0) is None
    table = kept.newest()
    assert (kept.looked_at_now(0), kept.looked_at_now(1)) == (table, None)
    kept.commit(table, [], "said", Transaction("app", 1))
    assert kept.looked_at_now(1) is None  # whether it stands, says a look
    assert kept.newest().transaction_version("app") == 1
    assert kept.looked_at_now(1) is not None
    monkeypatch.setattr(log, "FRESH_SECONDS", 0.0)
    assert kept.looked_at_now(1) is None


def test_a_large_checkpoint_is_for_delta_rs(tmp_path, monkeypatch):
    """It says the same, and commits go on."""
    uri = str(made(tmp_path / "t", "t"))
    DeltaTable(uri).create_checkpoint()
    monkeypatch.setattr(delta_log, "_LARGEST", 10)
    kept = NewestTable(uri, {})
    for version in range(3):
        table = kept.newest()
        assert isinstance(table, DeltaTable)
        assert table.version() == version
        kept.commit(table, [], f"said {version}", Transaction("app", version + 1))
    assert [c.get("userMetadata") for c in kept.history(kept.newest(), 2)] == ["said 2", "said 1"]
    assert kept.newest().transaction_version("app") == 3
