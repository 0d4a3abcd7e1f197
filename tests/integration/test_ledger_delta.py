"""What only the ledger in a Delta table does."""

import itertools
import json
import threading
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tideline.delta import delta_log
from tideline.errors import BadInput, CommitConflict, ServiceAway, UnreadableDocument
from tideline.ledger import delta_files, delta_logs, delta_store
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.ledger.ledger_port import HistoryEntry
from tideline.store.store_settings import ROLE


def test_an_address_that_cannot_be_created_is_bad_input(tmp_path):
    """Trying again would not help."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(BadInput, match="the address cannot be used"):
        Ledger(DeltaLedgerStore(str(blocked / "ledger")), "s").update(lambda s: s.with_next_token())


def test_many_first_writers_create_one_table(tmp_path):
    """delta-rs creates a table again, as version 1, where a first version is in its way."""
    for number in range(40):
        uri, start, created = str(tmp_path / str(number)), threading.Barrier(4), []

        def create(uri=uri, start=start, created=created):
            store = DeltaLedgerStore(uri)
            start.wait()
            try:
                store._create()
            except CommitConflict:
                return
            created.append(store)

        threads = [threading.Thread(target=create) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(created), DeltaTable(uri).version()) == (1, 0)


def test_a_first_writer_whose_table_others_filled_meanwhile_is_refused(tmp_path, monkeypatch):
    """It has read an empty ledger, and the table that it gets is not empty any more."""
    first, other = (DeltaLedgerStore(str(tmp_path / "ledger")) for _ in range(2))
    base, create = first.read(), first._create

    def create_and_wait():
        create()
        other.commit(other.read(), put={"head": "theirs"})
        return DeltaTable(str(tmp_path / "ledger"))

    monkeypatch.setattr(first, "_create", create_and_wait)
    with pytest.raises(CommitConflict):
        first.commit(base, put={"head": "mine"})
    assert other.read().documents == {"head": "theirs"}


def test_a_long_history_is_merged(tmp_path):
    """Active files do not grow with every closed run."""
    store = DeltaLedgerStore(str(tmp_path / "ledger"))
    for number in range(230):
        store.commit(store.read(), put={}, history=[HistoryEntry("run", f"k{number:03}", "{}")])
    table = DeltaTable(str(tmp_path / "ledger"))
    assert len(table.file_uris()) < 40
    assert [e.key for e in store.history("run", "k100")] == ["k100"]
    assert len(list(store.history("run"))) == 230


def test_reading_one_kind_opens_no_file_of_another(tmp_path, monkeypatch):
    """Kept heads are large, and runs are many."""
    store, opened = DeltaLedgerStore(str(tmp_path / "ledger")), []
    for number in range(205):
        entries = [HistoryEntry(kind, f"{kind}-{number:03}", "{}") for kind in ("run", "head")]
        store.commit(store.read(), put={}, history=entries)
    read = store._files.read
    monkeypatch.setattr(
        store._files,
        "read",
        lambda path, *key, **of: opened.append(path) or read(path, *key, **of),
    )
    assert len(list(store.history("head"))) == 205
    heads, opened = set(opened), []
    assert len(list(store.history("run"))) == 205
    assert not heads & set(opened)
    assert len(heads) < 20  # merged, each kind by itself


def test_a_history_of_before_kinds_were_apart_stays_readable(tmp_path, monkeypatch):
    """Nobody has to convert anything."""
    store = DeltaLedgerStore(str(tmp_path / "ledger"))
    with monkeypatch.context() as before:
        before.setattr(delta_store, "segment_key", lambda kind, version: "history:00000000")
        for kind in ("run", "incident"):
            store.commit(store.read(), put={}, history=[HistoryEntry(kind, "old", "{}")])
    store.commit(store.read(), put={}, history=[HistoryEntry("run", "new", "{}")])
    assert [e.key for e in store.history("run")] == ["old", "new"]
    assert [e.key for e in store.history("incident")] == ["old"]


def test_a_store_in_trouble_is_away(tmp_path):
    """Its own faults are passing, and say where."""
    ledger = Ledger(DeltaLedgerStore(str(tmp_path / "ledger")), "s")
    ledger.update(lambda s: s.with_next_token())
    for file in (tmp_path / "ledger").glob("*.parquet"):
        file.unlink()
    with pytest.raises(ServiceAway, match="ledger"):
        Ledger(DeltaLedgerStore(str(tmp_path / "ledger")), "s").read()


@pytest.mark.parametrize("asked", [1, 2], ids=["before the commit", "whether it was one"])
def test_a_store_that_goes_while_delta_rs_commits_is_away(tmp_path, monkeypatch, asked):
    """The log is asked what stands there, and where an answer was lost, what was committed."""
    store = DeltaLedgerStore(str(tmp_path), {ROLE: "any"})
    store.commit(store.read(), put={"control": "{}"})
    known, read, count = store.read(), delta_logs.read_commit, itertools.count(1)

    def goes(*arguments):
        if next(count) >= asked:
            raise OSError("the disk is gone")
        return read(*arguments)

    def lost(*_, **of):
        raise OSError("no answer")

    monkeypatch.setattr(delta_logs, "read_commit", goes)
    monkeypatch.setattr(DeltaTable, "create_write_transaction", lost)
    with pytest.raises(ServiceAway):
        store.commit(known, put={"control": "{}"})


def test_a_ledger_that_was_there_is_away_and_is_not_begun_anew(tmp_path):
    """Its folder is moved or unmounted while a run holds it open, and comes back."""
    folder, away = tmp_path / "ledger", tmp_path / "away"
    ledger = Ledger(DeltaLedgerStore(str(folder)), "s")
    ledger.update(lambda s: s.with_next_token())
    assert ledger.read().control.token == 1
    folder.rename(away)
    folder.write_text("an error while the log is read makes the store open the table anew")
    with pytest.raises(ServiceAway, match="cannot be used"):
        ledger.update(lambda s: s.with_next_token())
    folder.unlink()
    with pytest.raises(ServiceAway, match="gone or was put back"):
        ledger.update(lambda s: s.with_next_token())
    assert not folder.exists()
    away.rename(folder)
    assert ledger.update(lambda s: s.with_next_token()).control.token == 2


def test_one_record_is_found_without_reading_its_segment(tmp_path, monkeypatch):
    """Keys of all kinds of runs overlap in every segment; row groups do not."""
    store = DeltaLedgerStore(str(tmp_path / "ledger"))
    entries = [HistoryEntry("run", f"k{n:05}", "{}") for n in range(20_000)]
    store.commit(store.read(), put={}, history=entries)
    read, sizes = delta_files.read_parquet, []

    def recorded(*args, **options):
        found = read(*args, **options)
        sizes.append(len(found))
        return found

    monkeypatch.setattr(delta_files, "read_parquet", recorded)
    assert [e.key for e in store.history("run", "k07777")] == ["k07777"]
    assert sizes == [1000]


DAMAGED = {
    "nothing": b"",
    "NULs": bytes(50),
    "half of it": None,
    "a web page": b"<html>",
    "a list": b"[]",
    "another table's file": json.dumps(
        {"add": {"path": "f", "partitionValues": {}, "size": 1, "dataChange": True}}
    ).encode(),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_log_is_told_by_name(tmp_path, what):
    """Also an empty newest commit, which is no version without actions: its documents are gone."""
    uri = str(tmp_path / "ledger")
    ledger = Ledger(DeltaLedgerStore(uri), "s")
    for _ in range(3):
        ledger.update(lambda s: s.with_next_token())
    path = Path(uri, "_delta_log", f"{DeltaTable(uri).version():020d}.json")
    whole, damaged = path.read_bytes(), DAMAGED[what]
    path.write_bytes(whole[: len(whole) // 2] if damaged is None else damaged)
    for reader in (ledger, Ledger(DeltaLedgerStore(uri), "s")):
        for _ in range(2):
            with pytest.raises(UnreadableDocument, match=r"its log .* cannot be read"):
                reader.read()
    path.write_bytes(whole)
    assert Ledger(DeltaLedgerStore(uri), "s").read().control.token == 3


def test_an_empty_commit_is_told_by_name_where_delta_rs_reads_the_log(tmp_path):
    """It takes it for a version in which nothing happened: the documents of before would count."""
    uri = str(tmp_path / "ledger")
    ledger = Ledger(DeltaLedgerStore(uri, {ROLE: "any"}), "s")
    for _ in range(3):
        ledger.update(lambda s: s.with_next_token())
    path = Path(uri, "_delta_log", f"{DeltaTable(uri).version():020d}.json")
    whole = path.read_bytes()
    path.write_bytes(b"")
    with pytest.raises(UnreadableDocument, match=r"its log .* cannot be read: .* it is empty"):
        Ledger(DeltaLedgerStore(uri, {ROLE: "any"}), "s").read()
    path.write_bytes(whole)
    assert Ledger(DeltaLedgerStore(uri, {ROLE: "any"}), "s").read().control.token == 3


def test_a_damaged_checkpoint_of_a_ledger_is_told_by_name(tmp_path):
    uri = str(tmp_path / "ledger")
    Ledger(DeltaLedgerStore(uri), "s").update(lambda s: s.with_next_token())
    DeltaTable(uri).create_checkpoint()
    (path,) = Path(uri, "_delta_log").glob("*.checkpoint.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UnreadableDocument, match=r"its log .* cannot be read"):
        Ledger(DeltaLedgerStore(uri), "s").read()


def test_a_checkpoint_that_cannot_be_written_fails_no_commit_of_a_ledger(tmp_path, monkeypatch):
    def fails(*_):
        raise TypeError("a datetime")

    monkeypatch.setattr(delta_log, "write_checkpoint", fails)
    ledger = Ledger(DeltaLedgerStore(str(tmp_path / "ledger")), "s")
    for _ in range(51):
        ledger.update(lambda s: s.with_next_token())
    assert ledger.read().control.token == 51
