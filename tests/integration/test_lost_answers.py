"""A store that does what it is asked, and whose answer is lost: it is done once, by us."""

from dataclasses import replace

import pytest

from devstack.store_faults import Hold
from tests.worlds.build import ID
from tests.worlds.decoded_lake import DecodedLake, FakeDecoder, value_of
from tests.worlds.object_stores import losing_commit, while_held
from tests.worlds.tables import Rows, StoreWorld, change
from tideline.errors import CommitConflict
from tideline.landing.table_commit import commit_checked
from tideline.ledger import delta_store
from tideline.ledger.delta_store import DeltaLedgerStore
from tideline.ledger.ledger import Ledger
from tideline.ledger.ledger_port import HistoryEntry
from tideline.model.offsets import CoordinateRange
from tideline.table.schema import COMPACTION_ID


def store_at(bucket):
    return DeltaLedgerStore(bucket.uri("ledger"), bucket.options)


def counting(calls):
    """A change of the ledger that knows how often it was applied."""

    def next_token(state):
        calls.append(state.control.token)
        return state.with_next_token()

    return next_token


def test_a_change_of_the_ledger_is_applied_once(any_bucket):
    """It is no conflict: a second application would give out a second token."""
    ledger, calls = Ledger(store_at(any_bucket), "s"), []
    ledger.update(lambda s: s.with_next_token())
    with any_bucket.proxy.applying(losing_commit(2)) as rule:
        assert ledger.update(counting(calls)).control.token == 2
    assert (any_bucket.proxy.applied(rule), calls) == (1, [1])
    assert ledger.update(counting(calls)).control.token == 3
    assert Ledger(store_at(any_bucket), "s").read().version == 3


def test_it_is_found_below_what_others_have_committed_since(any_bucket):
    """The newest commit is theirs by then."""
    store, other = store_at(any_bucket), store_at(any_bucket)
    store.commit(store.read(), put={"head": "0"})
    base = store.read()
    while_held(
        any_bucket,
        base.version + 1,
        Hold(done=True),
        lambda: store.commit(base, put={"head": "1"}, history=[HistoryEntry("run", "k", "{}")]),
        lambda: other.commit(other.read(), put={"theirs": "1"}),
    )
    assert other.read().documents == {"head": "1", "theirs": "1"}
    assert len(list(other.history("run"))) == 1


def test_a_conflict_stays_a_conflict(any_bucket):
    """Somebody else's commit of that version carries another id."""
    store, other = store_at(any_bucket), store_at(any_bucket)
    store.commit(store.read(), put={"head": "0"})
    base = store.read()
    with pytest.raises(CommitConflict):
        while_held(
            any_bucket,
            base.version + 1,
            Hold(),
            lambda: store.commit(base, put={"head": "mine"}),
            lambda: other.commit(other.read(), put={"head": "theirs"}),
        )
    assert other.read().documents == {"head": "theirs"}


def test_a_ledger_is_created_once(any_bucket):
    """The first writer finds the table that it has made."""
    with any_bucket.proxy.applying(losing_commit(0)) as rule:
        made = Ledger(store_at(any_bucket), "s").update(lambda s: s.with_next_token())
    assert (any_bucket.proxy.applied(rule), made.control.token) == (1, 1)
    assert Ledger(store_at(any_bucket), "s").read().version == 1


def test_a_ledger_is_tidied_once(any_bucket, monkeypatch):
    """Merged history stands there once."""
    monkeypatch.setattr(delta_store, "COMMITS_PER_TIDY", 3)
    store = store_at(any_bucket)
    store.commit(store.read(), put={})
    with any_bucket.proxy.applying(losing_commit(4)) as rule:
        for number in range(2):
            store.commit(store.read(), put={}, history=[HistoryEntry("run", f"k{number}", "{}")])
    assert any_bucket.proxy.applied(rule) == 1
    assert [e.key for e in store_at(any_bucket).history("run")] == ["k0", "k1"]


def at(start, end):
    return CoordinateRange("orders", ID, 0, 0, start, end)


@pytest.fixture
def world(any_bucket):
    return StoreWorld(any_bucket)


def commit(world, doing, files=()):
    """The commit as every step makes it."""
    before = world.port.observe().version
    return commit_checked(world.port, doing, files, after_version=before)


def test_a_table_is_created_once(any_bucket):
    """And it is ours."""
    with any_bucket.proxy.applying(losing_commit(0)) as rule:
        world = StoreWorld(any_bucket)
    assert any_bucket.proxy.applied(rule) == 1
    assert (world.port.observe().version, world.port.observe().ledger_id) == (0, "l")


def landing(world):
    doing = change(at(10, 20), token=2, commit_id="second")
    return doing, world.write(doing, Rows(at(10, 20), plan_id="second")).files, range(20)


def removal(world):
    return change(at(0, 5), token=2, commit_id="p.removed"), (), range(5, 10)


def compaction(world):
    more = change(at(10, 20), token=2, commit_id="more")
    commit(world, more, world.write(more, Rows(at(10, 20))).files)
    doing = change(token=3, commit_id=COMPACTION_ID)
    merges = world.port.merge(doing, [world.port.files()])
    return replace(doing, merges=merges), (), range(20)


@pytest.mark.parametrize("kind", [landing, removal, compaction])
def test_a_change_of_the_table_is_committed_once(world, kind):
    """Its token and its plan say that the commit is ours."""
    first = change(at(0, 10))
    commit(world, first, world.write(first, Rows(at(0, 10))).files)
    doing, files, offsets = kind(world)
    version = world.port.observe().version + 1
    with world.bucket.proxy.applying(losing_commit(version)) as rule:
        made = commit(world, doing, files)
    assert world.bucket.proxy.applied(rule) == 1
    assert (made.version, made.token) == (version, doing.token)
    assert world.port.observe().version == version
    assert [row[3] for row in world.rows()] == list(offsets)


class StoredDecoder(FakeDecoder):
    """Writes through the server's folder."""

    def __init__(self, bucket):
        super().__init__()
        self.bucket = bucket

    def written(self, output, rows, schema):
        uri = str(self.bucket.path(output.uri.rpartition("/")[2]))
        return super().written(replace(output, uri=uri), rows, schema)


@pytest.mark.parametrize("table", ["typed", "bad"])
def test_a_decoding_is_committed_once(any_bucket, tmp_path, table):
    """To each of its two tables; the rows are decoded once, and the next run finds them."""
    lake = DecodedLake(
        tmp_path,
        any_bucket.options,
        table={"uri": any_bucket.uri("typed")},
        quarantine={"uri": any_bucket.uri("bad"), "max_share": 1.0},
    )
    lake.spark = StoredDecoder(any_bucket)
    schema_id = lake.register(("id", "int"))
    lake.lands(value_of(schema_id), b"nonsense")
    lake.decodes("one")
    lake.lands(value_of(schema_id), b"nonsense")
    before = lake.versions()
    with any_bucket.proxy.applying(losing_commit(before[table] + 1, table)) as rule:
        lake.decodes("two")
    assert any_bucket.proxy.applied(rule) == 1
    assert lake.versions() == {name: version + 1 for name, version in before.items()}
    lake.decodes("three")
    assert lake.versions() == {name: version + 1 for name, version in before.items()}
    assert len(lake.spark.jobs) == 2
    assert (lake.typed(), lake.bad()) == ([0, 2], [(1, "framing"), (3, "framing")])
    assert lake.audits().clean
