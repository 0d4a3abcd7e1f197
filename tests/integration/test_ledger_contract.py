"""What every ledger store must do; each store runs the same tests."""

import itertools
import multiprocessing
import os
import threading
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

import pytest

from tests.simulation.store import MemoryStore, StoreState
from tideline.errors import BadInput, CommitConflict, Halted, SchemaChanged, StreamBusy
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.ledger.ledger_port import HistoryEntry
from tideline.ledger.sql_store import SqlLedgerStore
from tideline.model.decoding import PLAIN_ID, WriterSchema, free_id
from tideline.model.head import Head
from tideline.model.incident import Finding
from tideline.model.offsets import one_interval
from tideline.model.run import Rewind, RunRecord
from tideline.store.store_settings import ROLE

_numbers = itertools.count(1)


class Mixed:
    """Ledgers of our own client and of delta-rs in turn, as with two versions of Tideline."""

    def __init__(self, folder):
        self.folder, self.count = folder, 0

    def __call__(self):
        self.count += 1
        return DeltaLedgerStore(
            self.folder, {ROLE: "any"} if (self.count + os.getpid()) % 2 else {}
        )


@pytest.fixture(params=["delta", "delta-rs", "mixed", "sqlite", "postgres", "memory"])
def new_store(request, tmp_path):
    """A factory of stores that all look at the same place; other processes may call it too.

    But for the one in memory: the simulation has one process only.
    """
    if request.param == "memory":
        return partial(MemoryStore, StoreState(), "here: s")
    folder = str(tmp_path / "ledger")
    if request.param.startswith("delta"):
        options = {ROLE: "any"} if request.param == "delta-rs" else {}
        return partial(DeltaLedgerStore, folder, options)
    if request.param == "mixed":
        return Mixed(folder)
    url = request.getfixturevalue(f"{request.param}_tables")
    return partial(SqlLedgerStore, url, f"s{next(_numbers)}", "here: s")


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


def test_what_a_commit_leaves_is_what_is_read(new_store):
    """Also of a ledger whose history came from another location, with larger versions."""
    store, put = new_store(), {"head": "1", "run:a": "{}"}
    store.commit(store.read(), put=put, history=[HistoryEntry("run", "x", "{}", 700)])
    known = store.read()
    for n in range(3):
        made = store.commit(known, put={"head": f"{n}", f"run:{n}": "{}"}, drop=["run:a", "none"])
        known = new_store().read()
        assert known.documents == {"head": f"{n}", **{f"run:{m}": "{}" for m in range(n + 1)}}
        assert made is None or made == known
        if made is not None:  # and the next commit may be made on it
            store.commit(made, put={"head": "on it"})
            with pytest.raises(CommitConflict):
                new_store().commit(made, put={"head": "late"})
            known = store.read()
            assert known.documents["head"] == "on it"


def test_what_is_known_may_be_old(new_store):
    """Another writer's change is seen by the next update: needed, refused or in the way of it."""
    mine, other = Ledger(new_store(), "s"), Ledger(new_store(), "s")
    calls = []

    def needed(state):
        return state if state.control.token < 2 else state.with_next_token()

    def refused(state):
        if state.control.token < 4:
            raise BadInput("too early")
        return state.with_next_token()

    def plain(state):
        calls.append(state.control.token)
        return state.with_next_token()

    for change, token in ((needed, 3), (refused, 5), (plain, 7)):
        mine.update(lambda s: s.with_next_token()) if token == 3 else mine.read()
        other.update(lambda s: s.with_next_token())
        assert mine.update(change).control.token == token
    assert calls == [5, 6]
    with pytest.raises(BadInput):
        mine.update(lambda s: refused(replace(s, control=replace(s.control, token=1))))


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


def increase(new_store, times):
    """What each process of the next test does."""
    ledger = Ledger(new_store(), "s")
    for _ in range(times):
        ledger.update(lambda s: s.with_next_token())


def test_processes_do_not_lose_each_other_s_updates(new_store):
    """Threads share a library's locks, processes share only the store."""
    if getattr(new_store, "func", None) is MemoryStore:
        pytest.skip("one process only")
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=increase, args=(new_store, 10)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [p.exitcode for p in processes] == [0, 0, 0]
    assert Ledger(new_store(), "s").read().control.token == 30


def test_of_many_first_writers_at_most_one_writes(new_store):
    """The others are refused, and go on from what they find then."""
    start = threading.Barrier(4)
    stores = [new_store() for _ in range(4)]
    outcomes = []

    def create(number):
        base = stores[number].read()
        start.wait()
        try:
            stores[number].commit(base, put={"head": str(number)})
            outcomes.append(number)
        except CommitConflict:
            pass

    threads = [threading.Thread(target=create, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) <= 1
    assert list(new_store().read().documents.values()) == [str(n) for n in outcomes]
    stores[0].commit(stores[0].read(), put={"head": "later"})
    assert new_store().read().documents == {"head": "later"}


LOOKS = {
    "history": lambda store: list(store.history("run")),
    "history of a key": lambda store: list(store.history("run", "k")),
    "documents": lambda store: store.read(),
}


@pytest.fixture(params=LOOKS)
def look(request):
    """A read by the same object that commits."""
    return LOOKS[request.param]


def test_a_look_between_reading_and_committing_changes_nothing(new_store, look):
    """Nobody else has committed, so the commit counts."""
    store = new_store()
    store.commit(store.read(), put={"head": "0"}, history=[HistoryEntry("run", "k", "{}")])
    base = store.read()
    look(store)
    store.commit(base, put={"head": "1"})
    assert new_store().read().documents == {"head": "1"}


def test_a_look_does_not_bring_a_commit_past_somebody_else_s(new_store, look):
    """The base is what was read, not what the same object has seen since."""
    store, other = new_store(), new_store()
    store.commit(store.read(), put={"head": "0"}, history=[HistoryEntry("run", "k", "{}")])
    base = store.read()
    other.commit(other.read(), put={"head": "theirs"})
    look(store)
    with pytest.raises(CommitConflict):
        store.commit(base, put={"head": "mine"})
    assert new_store().read().documents == {"head": "theirs"}


def during_commit(monkeypatch, store, happens):
    """Let something happen once, after a commit has checked its base and before it writes."""
    if isinstance(store, MemoryStore):
        pytest.skip("it checks and writes in one step")
    owner, name = (store._files, "write") if hasattr(store, "_files") else (store, "_take_turn")
    original = getattr(owner, name)

    def interrupted(*args):
        if args[-1] != [] and not happened:
            happened.append(name)
            thread = threading.Thread(target=happens)
            thread.start()
            thread.join()
        return original(*args)

    happened: list[str] = []
    monkeypatch.setattr(owner, name, interrupted)


def test_a_look_in_another_thread_does_not_move_what_a_commit_has_checked(
    new_store, look, monkeypatch
):
    """The main thread reads history while the keeper renews a lease, and somebody else commits."""
    store, other = new_store(), new_store()
    store.commit(store.read(), put={"head": "0"}, history=[HistoryEntry("run", "k", "{}")])
    base = store.read()

    def happens():
        other.commit(other.read(), put={"head": "theirs"})
        look(store)

    during_commit(monkeypatch, store, happens)
    with pytest.raises(CommitConflict):
        store.commit(base, put={"head": "mine"})
    assert new_store().read().documents == {"head": "theirs"}


def test_two_snapshots_of_one_object_are_two_bases(new_store):
    """Main thread and keeper read the same version; one of them commits first."""
    store = new_store()
    store.commit(store.read(), put={"head": "0"})
    one, two = store.read(), store.read()
    store.commit(two, put={"head": "keeper"})
    with pytest.raises(CommitConflict):
        store.commit(one, put={"head": "main"})
    assert new_store().read().documents == {"head": "keeper"}


def test_a_keeper_beside_history_reads_and_other_writers_loses_nothing(new_store):
    """Every increment counts, whoever shares which object."""
    shared, rounds = new_store(), 12
    Ledger(shared, "s").update(lambda s: s.with_next_token())
    failed = []

    def work(ledger):
        try:
            for number in range(rounds):
                ledger.update(lambda s: s.with_next_token())
                ledger.update(
                    lambda s, n=number: s.with_run(record(f"{ledger.holder}-{n}", "done"))
                )
        except Exception as error:
            failed.append(error)

    def watch(ledger):
        while not stop.is_set():
            try:
                assert len({r.run_id for r in ledger.closed_runs()}) <= 3 * rounds
            except Exception as error:
                failed.append(error)

    stop = threading.Event()
    # Two ledgers on one store: what main thread and keeper are without the ledger's own lock.
    workers = [Ledger(shared, "s"), Ledger(shared, "s"), Ledger(new_store(), "s")]
    threads = [threading.Thread(target=work, args=(ledger,)) for ledger in workers]
    watcher = threading.Thread(target=watch, args=(workers[0],))
    for thread in (*threads, watcher):
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    watcher.join()
    assert failed == []
    found = Ledger(new_store(), "s")
    assert found.read().control.token == 1 + 3 * rounds
    assert len(list(found.closed_runs())) == 3 * rounds


def test_what_is_read_is_of_one_moment(new_store):
    """Documents and version belong together, whoever writes meanwhile."""
    writer, reader = new_store(), new_store()
    writer.commit(writer.read(), put={"a": "0", "b": "0"})
    numbers: dict[int, int] = {}
    stop = threading.Event()

    def write():
        for number in itertools.count():
            base = writer.read()
            numbers[base.version] = number
            if stop.is_set():
                return
            after = str(number + 1)
            put = {"a": after} if number % 2 == 0 else {"a": after, "b": after}
            writer.commit(base, put=put, drop=["b"] if number % 2 == 0 else [])

    thread = threading.Thread(target=write)
    thread.start()
    try:
        found = [reader.read() for _ in range(30)]
    finally:
        stop.set()
        thread.join()
    for snapshot in found:
        number = numbers[snapshot.version]
        assert snapshot.documents["a"] == str(number)
        assert snapshot.documents.get("b") == (None if number % 2 else str(number))


def test_a_refused_commit_leaves_no_part_behind(new_store):
    """Documents and history are written together or not at all."""
    one, two = new_store(), new_store()
    one.commit(one.read(), put={"head": "1", "run:a": "{}"})
    base = two.read()
    one.commit(one.read(), put={"head": "2"})
    with pytest.raises(CommitConflict):
        two.commit(base, put={"head": "3"}, drop=["run:a"], history=[HistoryEntry("run", "a", "")])
    assert new_store().read().documents == {"head": "2", "run:a": "{}"}
    assert list(new_store().history("run")) == []


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
            mine.update(lambda s: s.with_rewind_begun(rewind, mine.holder))
            with pytest.raises(StreamBusy, match="live lease"), theirs.lease("other"):
                pass
        with pytest.raises(StreamBusy, match="rewind took over"):
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


def test_a_lease_that_others_had_meanwhile_is_lost_for_good(new_store, monkeypatch):
    """Whoever was silent for too long reads nothing, writes nothing and gets no token (R5)."""
    monkeypatch.setenv("TIDELINE_LEASE_SECONDS", "0")
    mine, yours = Ledger(new_store(), "s"), Ledger(new_store(), "s")
    with mine.lease("writer"):
        mine.update(lambda s: s.with_next_token())
        with yours.lease("writer"):
            yours.update(lambda s: s.with_next_token())
            with pytest.raises(StreamBusy, match="has lost the writer lease"):
                mine.update(lambda s: s.with_next_token())
        for asked in (mine.read, mine.refuse_lost, lambda: mine.update(lambda s: s)):
            with pytest.raises(StreamBusy, match="has lost the writer lease"):
                asked()


def test_a_lease_inside_of_one_that_was_lost_is_given_back(new_store, monkeypatch):
    """Whoever took the outer one over need not wait for the inner one."""
    monkeypatch.setattr("tideline.ledger.leases._MOST_OFTEN", 60)  # it is not renewed meanwhile
    monkeypatch.setenv("TIDELINE_LEASE_SECONDS", "0")
    mine, yours = Ledger(new_store(), "s"), Ledger(new_store(), "s")
    with mine.lease("live"):
        monkeypatch.setenv("TIDELINE_LEASE_SECONDS", "60")
        with mine.lease("writer"), yours.lease("live"):
            pass
        with yours.lease("writer"):
            pass


def test_a_token_is_larger_than_what_the_table_knows(new_store):
    """An older copy of a ledger, restored, would give out tokens that were used already."""
    ledger = Ledger(new_store(), "s")
    assert ledger.update(lambda s: s.with_next_token(above=40)).control.token == 41
    assert ledger.update(lambda s: s.with_next_token(above=7)).control.token == 42


def writer_schema(schema_id, text='"string"', known_as="s:1"):
    return WriterSchema(schema_id, text, f"digest of {text}", known_as, (), "avro")


def test_schemas_are_noted_with_a_change_and_found_by_id(new_store):
    """In the same commit, so that a plan never names a schema that nobody keeps."""
    ledger = Ledger(new_store(), "s")
    assert ledger.known_schemas([7]) == {}
    noted = [writer_schema(7), writer_schema(2**31 - 1, '"int"'), writer_schema(12, '"long"')]
    after = ledger.update(lambda s: s.with_next_token().noting(*noted))
    assert after.noted == ()
    assert ledger.read().control.token == 1
    other = Ledger(new_store(), "s")
    assert other.known_schemas([]) == {}
    assert other.known_schemas([7, 2**31 - 1, 99]) == {s.schema_id: s for s in noted[:2]}
    assert [e.key for e in other.store.history("schema", "12")] == ["12"]
    version = other.read().version
    other.update(lambda s: s.noting())
    assert other.read().version == version


def test_only_new_schemas_are_noted(new_store):
    """Two runs may note one at the same time; a subject that goes changes no schema."""
    ledger = Ledger(new_store(), "s")
    first = writer_schema(7)
    for _ in range(2):
        ledger.update(lambda s: s.noting(first))
    assert ledger.known_schemas([7]) == {7: first}
    new = writer_schema(8, '"int"')
    assert ledger.new_schemas([new, writer_schema(7, known_as=""), new]) == (new,)
    assert ledger.new_schemas([]) == ()


def test_schemas_that_records_bring_have_ids_of_the_ledgers_own(new_store):
    """An id stands for one text of one part, whatever a registry has given, or a version before."""
    ledger, text = Ledger(new_store(), "s"), '{"type": "int64"}'
    before = WriterSchema(1_234_567, '"of before"', "d", "values:1234567", (), "json")
    ledger.update(lambda s: s.noting(before, writer_schema(7, text)))
    (new,) = ledger.brought("values", "json", [text])
    assert (new.text, new.known_as) == (text, f"values:{new.schema_id}")
    assert new.schema_id < PLAIN_ID
    assert new.digest == sha256(text.encode()).hexdigest()
    assert ledger.brought("values", "json", [before.text, text]) == (before, new)
    ledger.update(lambda s: s.noting(new))
    other = ledger.brought("keys", "json", [text])
    assert other[0].schema_id == new.schema_id - 1
    ledger.update(lambda s: s.noting(*other))
    assert ledger.brought("values", "json", [text]) == (new,)
    assert ledger.brought("keys", "json", [text]) == other


def test_a_free_id_is_an_int_whatever_is_taken():
    first = free_id("a", ())
    taken = {*range(first - 2, first + 1)}
    assert -(2**31) <= free_id("a", taken) == first - 3


def test_an_id_with_another_schema_than_before_is_refused(new_store):
    """Another registry, or one that was put back: its ids mean something else."""
    ledger = Ledger(new_store(), "s")
    ledger.update(lambda s: s.noting(writer_schema(7)))
    other = writer_schema(7, '"int"', known_as="t:3")
    imported = replace(writer_schema(7), references=(("a.proto", "x"),))
    for changed in (other, imported, replace(writer_schema(7), schema_type="json")):
        with pytest.raises(SchemaChanged, match="schema id 7 was s:1") as refused:
            ledger.new_schemas([writer_schema(9), changed])
        assert refused.value.schema_id == 7
    with pytest.raises(SchemaChanged, match=r"was s:1 \(SHA-256 .*now is t:3"):
        ledger.new_schemas([other])
    with pytest.raises(SchemaChanged, match="schema id 9"):
        ledger.new_schemas([writer_schema(9), writer_schema(9, '"int"')])
    ledger.update(lambda s: s.noting(other))
    with pytest.raises(SchemaChanged):
        ledger.known_schemas([7])
    assert ledger.known_schemas([8]) == {}


def test_head_and_runs_move_in_one_step(new_store):
    """A crash cannot fall between them."""
    ledger = Ledger(new_store(), "s")
    ledger.update(lambda s: s.with_run(record("a")))
    moved = Head(live_runs=7)
    ledger.update(lambda s: replace(s.with_run(record("a", "done")), head=moved))
    state = ledger.read()
    assert (state.head, dict(state.runs)) == (moved, {})


def test_another_stream_s_ledger_is_refused(new_store):
    """Its incidents and positions are not ours."""
    Ledger(new_store(), "orders").update(lambda s: s.with_next_token())
    with pytest.raises(BadInput, match="belongs to stream orders, not to payments"):
        Ledger(new_store(), "payments").read()


def test_the_newest_records_come_first_each_as_it_was_closed_last(new_store):
    """Whoever looks at the newest few need not read the others."""
    store = new_store()
    for number in range(220):
        entries = [HistoryEntry("run", f"{number:03}", str(number))]
        if number == 150:
            entries.append(HistoryEntry("run", "007", "again"))
            entries.append(HistoryEntry("incident", "i", "another kind"))
        store.commit(store.read(), put={"head": str(number)}, history=entries)
    found = [(e.key, e.body) for e in new_store().recent("run")]
    assert found[0] == ("219", "219")
    assert [body for key, body in found if key == "007"] == ["again", "7"]
    assert sorted(found) == sorted((e.key, e.body) for e in new_store().history("run"))
    versions = [e.version for e in new_store().recent("run")]
    assert versions == sorted(versions, reverse=True)
    assert [e.key for e in new_store().recent("incident")] == ["i"]
    assert not list(new_store().recent("rewind"))
