"""A backup of a ledger is put back while processes are at work that know what came after it.

The ledger comes to the same version again, with other contents.
"""

import itertools
import shutil
from contextlib import suppress
from functools import partial

import pytest

from tests.simulation.store import MemoryStore, StoreState
from tideline.errors import CommitConflict
from tideline.ledger import delta_logs
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger_port import HistoryEntry
from tideline.ledger.sql_store import SqlLedgerStore
from tideline.store.store_settings import ROLE

_names = itertools.count(1)


class Place:
    """A ledger, two commits after its backup; `old` has read the second of them.

    Args:
        back_up: Makes a copy; what it returns puts the copy where the ledger is.
        new_store: Opens the ledger.
    """

    def __init__(self, back_up, new_store):
        self.new_store, self.old = new_store, new_store()
        self.old.commit(self.old.read(), put={"control": "0", "head": "0", "mark": "0"})
        self.put_back = back_up()
        self.old.commit(self.old.read(), put={"control": "old 1", "head": "old"})
        self.old.commit(self.old.read(), put={"control": "old 2", "run:x": "old"})
        self.known = self.old.read()

    def go_on(self, commits):
        """Another process works with what was put back."""
        other = self.new_store()
        for number in range(1, commits + 1):
            other.commit(other.read(), put={"control": f"new {number}"})
        return {"control": f"new {commits}", "head": "0", "mark": "0"}


def copied(files):
    """A folder, or a database in one file."""
    copy = files.with_suffix(".copy")
    (shutil.copytree if files.is_dir() else shutil.copy)(files, copy)

    def put_back():
        (shutil.rmtree if files.is_dir() else type(files).unlink)(files)
        copy.rename(files)

    return put_back


@pytest.fixture(params=["delta", "delta-rs", "sqlite", "memory"])
def place(request, tmp_path):
    """In each kind of store, and in the simulation's."""
    if request.param == "memory":
        state = StoreState()
        return Place(lambda: partial(state.put_back, state.copy()), partial(MemoryStore, state))
    if request.param.startswith("delta"):
        folder, options = tmp_path / "ledger", {ROLE: "any"} if request.param == "delta-rs" else {}
        return Place(partial(copied, folder), partial(DeltaLedgerStore, str(folder), options))
    url = request.getfixturevalue("sqlite_tables")
    store = partial(SqlLedgerStore, url, f"s{next(_names)}", "here: s")
    return Place(partial(copied, tmp_path / "ledgers.db"), store)


@pytest.mark.parametrize("commits", [2, 3, 5])
def test_who_has_read_what_came_after_the_backup_reads_what_is_there_now(place, commits):
    """At the version that it knows, and above it."""
    place.put_back()
    documents = place.go_on(commits)
    place.old.read()
    assert place.old.read().documents == documents or place.known.version >= commits + 1
    later = place.go_on(commits + 1)
    assert place.old.read().documents == later == place.new_store().read().documents


def test_a_commit_on_what_came_after_the_backup_counts_for_nobody(place, monkeypatch):
    """It stood between reading and writing, while the ledger came to its version again.

    In files a look counts for a second: what was read longer ago is looked at once more.
    """
    monkeypatch.setattr(delta_logs, "FRESH_SECONDS", 0.0)
    place.put_back()
    documents = place.go_on(2)
    mine = HistoryEntry("run", "x", "mine")
    with suppress(CommitConflict):
        place.old.commit(place.known, put={"head": "mine", "run:x": "mine"}, history=[mine])
    assert place.new_store().read().documents == documents
    assert place.old.read().documents == documents
    assert [*place.new_store().history("run")] == [*place.new_store().recent("run")] == []
    documents = place.go_on(1)
    assert place.new_store().read().documents == documents == place.old.read().documents
    assert [*place.new_store().history("run", "x")] == []
