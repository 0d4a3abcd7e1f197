"""What only the ledger in a database does."""

import json
import time

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from devstack.process import wait_until
from tideline.errors import BadInput, ServiceAway
from tideline.ledger import sql_store
from tideline.ledger.ledger import Ledger
from tideline.ledger.ledger_port import HistoryEntry
from tideline.ledger.sql_store import SqlLedgerStore
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger


def update(store):
    return Ledger(store, "s").update(lambda s: s.with_next_token())


def test_many_streams_share_one_database(sqlite_tables):
    """Versions, documents and history are each stream's own."""
    stores = {name: SqlLedgerStore(sqlite_tables, name, name) for name in ("s", "t")}
    stores["s"].commit(stores["s"].read(), put={"a": "1"}, history=[HistoryEntry("run", "x", "s")])
    assert stores["t"].read().version == -1
    stores["t"].commit(stores["t"].read(), put={"a": "2"}, history=[HistoryEntry("run", "x", "t")])
    stores["t"].commit(stores["t"].read(), put={}, drop=["a"])
    assert sorted(stores["s"].names()) == ["s", "t"]
    assert stores["s"].read().documents == {"a": "1"}
    assert [e.body for e in stores["s"].history("run", "x")] == ["s"]


def test_a_stream_file_leads_to_its_rows(sqlite_tables, monkeypatch, tmp_path):
    """Connection and stream; a path that is wrong is refused and leaves nothing behind."""
    connection = {"conn_type": "sqlite", "host": sqlite_tables.database}
    monkeypatch.setenv("AIRFLOW_CONN_TIDELINE_LEDGER", json.dumps(connection))
    stream = Stream(
        stream="orders",
        kafka={"topics": ["orders"]},
        table={"uri": "/data/lake/orders"},
        ledger="airflow",
    )
    ledger = open_ledger(stream)
    ledger.update(lambda s: s.with_next_token())
    assert SqlLedgerStore(sqlite_tables, "orders", "").read().documents
    assert ledger.store.location == "tideline_ledger: orders"
    nowhere = tmp_path / "nowhere.db"
    connection["host"] = str(nowhere)
    monkeypatch.setenv("AIRFLOW_CONN_TIDELINE_LEDGER", json.dumps(connection))
    with pytest.raises(BadInput, match="unable to open"):
        open_ledger(stream).read()
    assert not nowhere.exists()


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_missing_tables_are_bad_input_that_says_who_creates_them(kind, tmp_path, request):
    """Trying again would not help; a command does."""
    if kind == "sqlite":
        url = URL.create("sqlite", database=str(tmp_path / "empty.db"))
    else:
        url = request.getfixturevalue("postgres").create_database(f"empty-{tmp_path.name}")
    with pytest.raises(BadInput) as refused:
        SqlLedgerStore(url, "s", "tideline_ledger: s").read()
    for part in ("tideline_ledger: s", "external_db_managers", "airflow db migrate", "db-manager"):
        assert part in refused.value.message


def test_a_database_that_is_away_is_away_and_its_password_stays_a_secret(postgres):
    """Its own faults are passing, and say where."""
    addresses = {
        "wrong password": postgres.url().set(password="canary-secret"),
        "nothing listens": postgres.url().set(password="canary-secret", port=1),
        "no such database": postgres.url("nowhere"),
    }
    for url in addresses.values():
        with pytest.raises(ServiceAway, match="db: s cannot be used") as away:
            update(SqlLedgerStore(url, "s", "db: s"))
        shown = repr(away.value) + str(away.value.__cause__) + str(away.value.__context__)
        assert "canary-secret" not in shown
        assert postgres.password not in shown


def test_documents_appear_in_no_message(sqlite_tables):
    """A failing statement is not shown with its values."""
    store = SqlLedgerStore(sqlite_tables, "s", "db: s")
    base = store.read()
    with create_engine(sqlite_tables, poolclass=NullPool).begin() as connection:
        connection.execute(text("DROP TABLE tideline_document"))
    with pytest.raises(BadInput, match="tideline_document") as refused:
        store.commit(base, put={"head": "a document"})
    assert "a document" not in refused.value.message


def test_rights_that_are_missing_are_bad_input(postgres, postgres_tables):
    """Somebody has to give them."""
    postgres.execute("CREATE ROLE reader LOGIN PASSWORD 'reader'")
    url = postgres_tables.set(username="reader", password="reader")
    with pytest.raises(BadInput, match="give the connection's user"):
        SqlLedgerStore(url, "s", "db: s").read()


def test_a_writer_that_was_stopped_does_not_hold_others_up_for_ever(postgres_tables, monkeypatch):
    """Whoever waits for its row gives up in time, and later finds it free."""
    monkeypatch.setattr(sql_store, "_BUSY_SECONDS", 1)
    store = SqlLedgerStore(postgres_tables, "stopped", "db: stopped")
    update_it = Ledger(store, "stopped").update
    update_it(lambda s: s.with_next_token())
    engine = create_engine(postgres_tables, poolclass=NullPool)
    with engine.connect() as stopped:
        stopped.execute(text("UPDATE tideline_ledger SET version = 0 WHERE name = 'stopped'"))
        began = time.monotonic()
        with pytest.raises(ServiceAway, match="db: stopped"):
            update_it(lambda s: s.with_next_token())
        assert time.monotonic() - began < 15
    assert update_it(lambda s: s.with_next_token()).control.token == 2


def test_the_server_ends_a_stopped_writer_s_transaction(postgres, postgres_tables, monkeypatch):
    """Its lock goes with it."""
    monkeypatch.setattr(sql_store, "_BUSY_SECONDS", 1)
    store = SqlLedgerStore(postgres_tables, "idle", "db: idle")
    store.commit(store.read(), put={"a": "1"})
    took_turn, ended = store._take_turn, []

    def stop_there(*arguments):
        took_turn(*arguments)
        idle = "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction'"
        wait_until(lambda: not postgres.execute(idle), "the server waits for ever", 20)
        ended.append(True)

    monkeypatch.setattr(store, "_take_turn", stop_there)
    with pytest.raises(ServiceAway):
        store.commit(store.read(), put={"a": "2"})
    assert ended
    other = SqlLedgerStore(postgres_tables, "idle", "db: idle")
    other.commit(other.read(), put={"a": "3"})
    assert other.read().documents == {"a": "3"}


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_one_key_is_found_by_the_index(kind, request):
    """Looking a run up does not cost more with every run."""
    url = request.getfixturevalue(f"{kind}_tables")
    store = SqlLedgerStore(url, "many", "db: many")
    for part in range(5):
        entries = [HistoryEntry("run", f"k{part}-{n}", "x" * 100) for n in range(1000)]
        store.commit(store.read(), put={}, history=entries)
    engine = store._engine
    plans = []

    @event.listens_for(engine, "before_cursor_execute", retval=True)
    def explain(connection, cursor, statement, parameters, context, many):
        if "tideline_history" in statement and statement.startswith("SELECT"):
            word = "EXPLAIN QUERY PLAN " if kind == "sqlite" else "EXPLAIN "
            cursor.execute(word + statement, parameters)
            plans.append(str(cursor.fetchall()))
        return statement, parameters

    if kind == "postgres":
        with create_engine(url, poolclass=NullPool).begin() as connection:
            connection.execute(text("ANALYZE tideline_history"))
    assert [e.key for e in store.history("run", "k3-7")] == ["k3-7"]
    assert "tideline_history_by_key" in plans[0]
