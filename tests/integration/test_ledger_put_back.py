"""A backup of a ledger is put back while processes are at work that know what came after it.

The ledger comes to the same version again, with other contents.
"""

import itertools
import shutil
from contextlib import suppress
from functools import partial

import pytest

from tideline.errors import CommitConflict
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.port import HistoryEntry
from tideline.ledger.sql_store import SqlLedgerStore

_names = itertools.count(1)


class Place:
    """A ledger in files, two commits after its backup; `old` has read the second of them.

    Args:
        files: What is copied: a folder, or a database in one file.
        new_store: Opens the ledger.
    """

    def __init__(self, files, new_store):
        self._files, self._copy, self.new_store = files, files.with_suffix(".copy"), new_store
        self.old = new_store()
        self.old.commit(self.old.read(), put={"control": "0", "head": "0", "mark": "0"})
        (shutil.copytree if files.is_dir() else shutil.copy)(files, self._copy)
        self.old.commit(self.old.read(), put={"control": "old 1", "head": "old"})
        self.old.commit(self.old.read(), put={"control": "old 2", "run:x": "old"})
        self.known = self.old.read()

    def put_back(self):
        """The backup is where the ledger was."""
        (shutil.rmtree if self._files.is_dir() else type(self._files).unlink)(self._files)
        self._copy.rename(self._files)

    def go_on(self, commits):
        """Another process works with what was put back."""
        other = self.new_store()
        for number in range(1, commits + 1):
            other.commit(other.read(), put={"control": f"new {number}"})
        return {"control": f"new {commits}", "head": "0", "mark": "0"}


@pytest.fixture(params=["delta", "sqlite"])
def place(request, tmp_path):
    """In each kind of store."""
    if request.param == "delta":
        folder = tmp_path / "ledger"
        return Place(folder, partial(DeltaLedgerStore, str(folder)))
    url = request.getfixturevalue("sqlite_tables")
    return Place(
        tmp_path / "ledgers.db", partial(SqlLedgerStore, url, f"s{next(_names)}", "here: s")
    )


@pytest.mark.parametrize("commits", [2, 3, 5])
def test_who_has_read_what_came_after_the_backup_reads_what_is_there_now(place, commits):
    """At the version that it knows, and above it."""
    place.put_back()
    documents = place.go_on(commits)
    place.old.read()
    assert place.old.read().documents == documents or place.known.version >= commits + 1
    later = place.go_on(commits + 1)
    assert place.old.read().documents == later == place.new_store().read().documents


def test_a_commit_on_what_came_after_the_backup_counts_for_nobody(place):
    """It stood between reading and writing, while the ledger came to its version again."""
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
