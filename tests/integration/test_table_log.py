"""A table's log that is held open, while another one comes to its address."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from tideline.delta import delta_log
from tideline.errors import UnreadableTable
from tideline.store.store_settings import ROLE
from tideline.table import log
from tideline.table.delta_table import TargetTable
from tideline.table.log import NewestTable


def made(folder, name):
    """A table whose only commit says its name."""
    said = CommitProperties(custom_metadata={"userMetadata": name})
    DeltaTable.create(str(folder), pa.schema([("k", pa.string())]), commit_properties=said)
    return folder


ACTION = {"txn": {"appId": "app", "version": 1}}


def commit(folder, version):
    return Path(folder, "_delta_log", f"{version:020d}.json")


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


READERS = {"ours": {}, "delta-rs": {ROLE: "any"}}


@pytest.mark.parametrize("options", READERS.values(), ids=READERS)
def test_a_commit_that_says_nothing_of_itself_counts_as_a_version(tmp_path, options):
    """delta-rs' own list leaves it out, and gives its version to the commit before it."""
    folder = made(tmp_path / "t", "made")
    for version, lines in enumerate(([{"commitInfo": {"userMetadata": "one"}}], [ACTION]), 1):
        commit(folder, version).write_text("\n".join(map(json.dumps, lines)))
    kept = NewestTable(str(folder), options)
    table = kept.newest()
    assert isinstance(table, DeltaTable) == bool(options)
    said = [(c["version"], c.get("userMetadata")) for c in kept.history(table)]
    assert said == [(2, None), (1, "one"), (0, "made")]


def both():
    add = {"path": "f", "partitionValues": {}, "size": 1, "modificationTime": 5, "dataChange": True}
    gone = {"path": "f", "deletionTimestamp": 1, "dataChange": True}
    return "\n".join(json.dumps(line) for line in ({"add": add}, {"remove": gone}))


@pytest.mark.parametrize("options", READERS.values(), ids=READERS)
def test_an_empty_commit_is_refused_by_name(tmp_path, options):
    """delta-rs and Spark take it for one in which nothing happened: its rows would be gone."""
    folder = made(tmp_path / "t", "t")
    before = TargetTable(str(folder), options)
    assert before.observe().unreadable is None
    commit(folder, 1).touch()
    for table in (before, TargetTable(str(folder), options)):
        assert table.observe().unreadable == "version 1 is damaged: it is empty"
    commit(folder, 1).unlink()
    assert before.observe().version == 0


def test_an_empty_commit_below_others_is_refused_by_name(tmp_path):
    folder = made(tmp_path / "t", "t")
    commit(folder, 1).touch()
    commit(folder, 2).write_text(json.dumps(ACTION))
    assert TargetTable(str(folder)).observe().unreadable == "version 1 is damaged: it is empty"


def test_a_commit_of_which_readers_think_differently_is_refused_by_name(tmp_path):
    folder = made(tmp_path / "t", "t")
    commit(folder, 1).write_text(both())
    found = TargetTable(str(folder)).observe().unreadable
    assert found == "version 1 is damaged: it adds and removes f"


@pytest.mark.parametrize("options", READERS.values(), ids=READERS)
def test_a_damaged_commit_below_the_checkpoint_is_refused_by_name(tmp_path, options):
    """Nobody needs it to open the table; who looks for a plan in the log has to read it."""
    folder = made(tmp_path / "t", "t")
    commit(folder, 1).write_text(json.dumps(ACTION))
    DeltaTable(folder).create_checkpoint()
    commit(folder, 0).write_text("{garbage")
    table = TargetTable(str(folder), options)
    assert table.observe().version == 1
    with pytest.raises(UnreadableTable, match="version 0 is damaged"):
        table.find_commit("p", None)
