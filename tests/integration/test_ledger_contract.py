"""What every ledger store must do; each store runs the same tests."""

import threading
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable

from tideline.adapters import ledger_delta
from tideline.adapters.ledger_delta import DeltaLedgerStore
from tideline.core.head import Head
from tideline.core.incident import Finding, one_interval
from tideline.core.result import RunRecord
from tideline.core.rewind import Rewind
from tideline.errors import BadInput, CommitConflict, Halted, ServiceAway, StreamBusy
from tideline.ledger import Ledger
from tideline.ports import HistoryEntry


@pytest.fixture(params=["delta"])
def new_store(request, tmp_path):
    """A factory of stores that all look at the same place."""
    return {"delta": lambda: DeltaLedgerStore(str(tmp_path / "ledger"))}[request.param]


def record(run_id, status="proposed"):
    return RunRecord(run_id, "live", status, "digest", datetime.now(UTC))


def test_an_empty_ledger_is_read_as_empty_and_created_by_the_first_write(new_store):
    """Reading must not leave anything behind."""
    assert new_store().read().version == -1
    assert new_store().read().version == -1
    Ledger(new_store(), "s").update(lambda s: s.with_next_token())
    assert Ledger(new_store(), "s").read().control.token == 1


def test_the_ledger_s_id_is_chosen_once(new_store):
    """It ties the table to this ledger."""
    first = Ledger(new_store(), "s").update(lambda s: s.with_next_token()).control.ledger_id
    assert Ledger(new_store(), "s").read().control.ledger_id == first


def test_of_two_commits_from_one_version_the_second_fails_and_writes_nothing(new_store):
    """Compare-and-swap."""
    Ledger(new_store(), "s").update(lambda s: s.with_next_token())
    one, two = new_store(), new_store()
    base_one, base_two = one.read(), two.read()
    one.commit(base_one, put={"head": '{"live_runs": 1}'})
    with pytest.raises(CommitConflict):
        two.commit(base_two, put={"head": '{"live_runs": 2}'})
    assert new_store().read().documents["head"] == '{"live_runs": 1}'


def test_concurrent_updates_all_count(new_store):
    """Nobody's increment is lost."""
    Ledger(new_store(), "s").update(lambda s: s.with_next_token())

    def work():
        ledger = Ledger(new_store(), "s")
        for _ in range(10):
            ledger.update(lambda s: s.with_next_token())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Ledger(new_store(), "s").read().control.token == 41


def test_replaced_documents_do_not_pile_up(new_store):
    """Reading the state costs as much after many updates as after one."""
    ledger = Ledger(new_store(), "s")
    for _ in range(60):
        ledger.update(lambda s: s.with_next_token())
    assert set(new_store().read().documents) == {"control", "head"}


def test_closed_runs_leave_the_state_and_are_found_in_the_history(new_store):
    """O(open runs) to read, any run id to find."""
    ledger = Ledger(new_store(), "s")
    for number in range(5):
        ledger.update(lambda s, n=number: s.with_run(record(f"run-{n}", "done")))
    ledger.update(lambda s: s.with_run(record("open")))
    assert set(Ledger(new_store(), "s").read().runs) == {"open"}
    assert ledger.find_run("run-3").status == "done"
    assert ledger.find_run("open").status == "proposed"
    assert ledger.find_run("never") is None
    assert [r.run_id for r in ledger.closed_runs()] == [f"run-{n}" for n in range(5)]


def test_the_newest_entry_of_a_key_counts(new_store):
    """A replay rewrites what is known about a closed run."""
    ledger = Ledger(new_store(), "s")
    ledger.update(lambda s: s.with_run(record("a", "done")))
    ledger.update(lambda s: s.with_run(replace(record("a", "done"), superseded_by="b")))
    assert ledger.find_run("a").superseded_by == "b"
    assert len(list(ledger.closed_runs())) == 1


def test_history_keeps_versions_in_order(new_store):
    """Oldest first, whatever files they lie in."""
    store = new_store()
    for number in range(3):
        store.commit(store.read(), put={}, history=[HistoryEntry("run", f"k{number}", "{}")])
    versions = [e.version for e in store.history("run")]
    assert versions == sorted(versions)
    assert [e.key for e in store.history("run", "k1")] == ["k1"]


def closes(ledger, run_id, head=None):
    """A run that is open for a moment and closes with a head."""
    ledger.update(lambda s: s.with_run(record(run_id)))
    ledger.update(lambda s: replace(s.with_run(record(run_id, "done")), head=head or s.head))
    return ledger.find_run(run_id).head_key


def test_a_closing_run_names_the_head_that_it_leaves(new_store):
    """Also what moved since the closing before it; nothing is kept for runs that move nothing."""
    ledger = Ledger(new_store(), "s")
    first = closes(ledger, "a", Head(cluster_id="a"))
    assert {closes(ledger, f"idle-{n}") for n in range(3)} == {first}
    ledger.update(lambda s: replace(s, head=Head(cluster_id="decided")))
    decided = closes(ledger, "b")
    assert ledger.kept_head(first) == Head(cluster_id="a")
    assert Ledger(new_store(), "s").kept_head(decided) == Head(cluster_id="decided")
    assert [e.key for e in ledger.store.history("head")] == [first, decided]


def test_the_replay_of_a_closed_run_keeps_no_head(new_store):
    """It stays where it closed first."""
    ledger = Ledger(new_store(), "s")
    key = closes(ledger, "a", Head(cluster_id="a"))
    closes(ledger, "b", Head(cluster_id="b"))
    known = ledger.find_run("a")
    ledger.update(lambda s: s.with_run(replace(known, updated_at=datetime.now(UTC))))
    assert ledger.find_run("a").head_key == key
    assert len(list(ledger.store.history("head"))) == 2
    assert [c.first.run_id for c in ledger.closings()] == ["a", "b"]
    assert ledger.closings()[0].newest.updated_at > ledger.closings()[0].first.updated_at


def test_a_rewind_under_way_keeps_everybody_else_out(new_store):
    """Whoever comes, and whoever was there: what they know is out of date."""
    mine, yours, theirs = (Ledger(new_store(), "s") for _ in range(3))
    rewind = Rewind("rewind-1", "a", "why", "ann", datetime.now(UTC), "key")
    with yours.lease("backfill"):
        with mine.lease("live", rewinding=True):
            mine.update(lambda s: s.with_rewind_begun(rewind))
            with pytest.raises(StreamBusy, match="live lease"), theirs.lease("other"):
                pass
        with pytest.raises(StreamBusy, match="rewound"):
            yours.update(lambda s: s.with_next_token())
    assert mine.rewinds() == [rewind]
    with pytest.raises(Halted, match="rewind-1 to run a was begun"), yours.lease("live"):
        pass
    done = replace(rewind, finished_at=datetime.now(UTC))
    mine.update(lambda s: s.with_run(record("proposed")))
    state = mine.update(lambda s: s.with_rewind_finished(done, Head(live_runs=7)))
    assert (state.head.live_runs, dict(state.runs), mine.rewinds()) == (7, {}, [done])
    with yours.lease("live"):
        pass


def test_incidents_are_numbered_attached_to_and_kept(new_store):
    """The same finding is the same incident, with what is at stake now."""
    finding = Finding("retention_loss", "e", "a", "orders", "id", 0, one_interval(100, 120))
    worse = replace(finding, intervals=one_interval(100, 200))
    ledger, time = Ledger(new_store(), "s"), datetime.now(UTC)
    ledger.update(lambda s: s.with_incidents([finding], "first", time))
    state = ledger.update(lambda s: s.with_incidents([worse], "second", time))
    (incident,) = state.control.incidents
    assert (incident.incident_id, incident.run_id) == ("incident-1", "first")
    assert incident.finding.lost_end == 200
    ledger.update(lambda s: s.with_incidents_closed([incident.closed("gone again", time)]))
    assert ledger.read().control.incidents == ()
    (ended,) = Ledger(new_store(), "s").closed_incidents()
    assert (ended.outcome, ended.finding) == ("gone again", worse)
    state = ledger.update(lambda s: s.with_incidents([finding], "third", time))
    assert state.control.incidents[0].incident_id == "incident-2"


def test_a_change_that_changes_nothing_writes_nothing(new_store):
    """A refused or repeated step leaves the version where it was."""
    ledger = Ledger(new_store(), "s")
    version = ledger.update(lambda s: s.with_next_token()).version
    before = ledger.read().version
    ledger.update(lambda s: s)
    assert ledger.read().version == before > version


def test_a_lease_keeps_others_out_until_it_is_given_back(new_store):
    """By holder, so that nobody gives back what somebody else has."""
    mine, yours = Ledger(new_store(), "s"), Ledger(new_store(), "s")
    with mine.lease("writer"), pytest.raises(StreamBusy, match="writer"), yours.lease("writer"):
        pass
    with yours.lease("writer"):
        pass


def test_head_and_runs_move_in_one_step(new_store):
    """A crash cannot fall between them."""
    ledger = Ledger(new_store(), "s")
    ledger.update(lambda s: s.with_run(record("a")))
    moved = Head(live_runs=7)
    ledger.update(lambda s: replace(s.with_run(record("a", "done")), head=moved))
    state = ledger.read()
    assert (state.head, dict(state.runs)) == (moved, {})


def test_an_address_that_cannot_be_created_is_bad_input(tmp_path):
    """Trying again would not help."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    with pytest.raises(BadInput, match="the address cannot be used"):
        Ledger(DeltaLedgerStore(str(blocked / "ledger")), "s").update(lambda s: s.with_next_token())


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
    rows = store._rows
    monkeypatch.setattr(
        store, "_rows", lambda table, path: opened.append(path) or rows(table, path)
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
        before.setattr(ledger_delta, "_history_slot", lambda kind, version: "history:00000000")
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


def test_another_stream_s_ledger_is_refused(new_store):
    """Its incidents and positions are not ours."""
    Ledger(new_store(), "orders").update(lambda s: s.with_next_token())
    with pytest.raises(BadInput, match="belongs to stream orders, not to payments"):
        Ledger(new_store(), "payments").read()
