"""Names in a catalog: which stand for a table, when they are asked for, what never ends a run."""

import json
from dataclasses import replace
from datetime import timedelta
from threading import Event

import pytest

from tests.worlds.build import NOW
from tests.worlds.catalogs import MemoryCatalog, UnityServer, behaves
from tests.worlds.decoded_lake import DecodedLake, value_of
from tideline.catalog.catalog_connection import catalog_of
from tideline.errors import AccessRefused, BadInput, ConnectionMissing, StreamFileError
from tideline.landing import context, naming
from tideline.landing.naming import name_tables
from tideline.model.catalog import CatalogEntry, NamedTable, TableName
from tideline.rules.catalog_names import due_names, merge_names, misnamed, normalized
from tideline.stream.files import parse_stream, read_file

RAW, DECODED, BAD = (TableName.of(f"raw.orders{end}") for end in ("", "_decoded", "_quarantine"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("/x/y", "file:/x/y"),
        ("/x/y/", "file:///x/y"),
        ("FILE:/x//y", "/x/y"),
        ("s3://b/t", "s3a://b/t/"),
        ("s3n://b/t", "s3://b/t"),
        ("abfs://c@a/t", "abfss://c@a/t"),
        ("gs://b/t", "gs://b/t/"),
    ],
)
def test_locations_that_are_one_folder(one, other):
    assert normalized(one) == normalized(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("/x/y", "/x/yy"), ("/x", "s3a://x"), ("s3://b/T", "s3://b/t"), ("gs://b", "s3://b")],
)
def test_locations_that_are_not(one, other):
    assert normalized(one) != normalized(other)


@pytest.mark.parametrize(
    ("location", "kind", "format", "finding"),
    [
        ("file:/lake/t", "external", "delta", None),
        ("/lake/other", "external", "delta", "catalog_elsewhere"),
        (None, "external", "delta", "catalog_elsewhere"),
        ("/lake/t", "managed table", "delta", "catalog_not_ours"),
        (None, "view", "", "catalog_not_ours"),
        ("/lake/t", "external", "parquet", "catalog_not_ours"),
    ],
)
def test_what_a_name_has_to_be(location, kind, format, finding):
    found = misnamed("raw.t", "/lake/t", CatalogEntry(location, kind, format))
    assert (found and found[0]) == finding
    assert found is None or "Nothing was changed. Next: drop that name" in found[1]


def test_when_a_name_is_looked_at_again():
    """An hour after it was right, ten minutes after it was wrong; at once where it has changed."""
    wanted = {"raw": ("raw.t", "/t"), "decoded": ("raw.t_decoded", "/d")}

    def known(finding=None, minutes=0, **facts):
        named = {"role": "raw", "name": "raw.t", "uri": "/t", "table_id": None, **facts}
        return NamedTable(**named, looked_at=NOW - timedelta(minutes=minutes), finding=finding)

    decoded = known(role="decoded", name="raw.t_decoded", uri="/d")
    assert due_names([], wanted, NOW) == ("raw", "decoded")
    assert due_names([known(), decoded], wanted, NOW) == ()
    assert due_names([known(minutes=59), decoded], wanted, NOW) == ()
    assert due_names([known(minutes=60), decoded], wanted, NOW) == ("raw",)
    assert due_names([known("catalog_elsewhere", 9), decoded], wanted, NOW) == ()
    assert due_names([known("catalog_elsewhere", 10), decoded], wanted, NOW) == ("raw",)
    assert due_names([known(uri="/other"), decoded], wanted, NOW) == ("raw",)
    assert due_names([known(name="raw.s"), decoded], wanted, NOW) == ("raw",)
    assert due_names([known("catalog_away", 9)], wanted, NOW) == ()
    assert due_names([known("catalog_away", 10)], wanted, NOW) == ("raw", "decoded")
    assert merge_names([known(), decoded], [known(uri="/u")], {"raw": ("", "")}) == (
        known(uri="/u"),
    )


@pytest.fixture
def lake(tmp_path):
    """One record is landed, and none decoded."""
    found = DecodedLake(tmp_path)
    found.catalog = MemoryCatalog("raw")
    found.lands(value_of(found.register(("id", "int"))))
    return found


def findings(lake):
    return [(t.role, t.finding) for t in lake.ledger.read().head.names]


def test_tables_get_their_names_once_they_are_verified(lake):
    """And nobody is asked again within an hour."""
    name_tables(lake.run("one"), "raw")
    assert [*lake.catalog.entries] == [RAW]
    lake.decodes("one")
    assert [*lake.catalog.entries] == [RAW, DECODED, BAD]
    assert findings(lake) == [("raw", None), ("decoded", None), ("quarantine", None)]
    assert {t.table_id for t in lake.ledger.read().head.names} == {"an id"}
    asked = lake.catalog.asked
    name_tables(lake.run("two"), "raw", "decoded")
    assert lake.catalog.asked == asked


def test_no_name_is_made_of_a_table_that_is_not_there(lake, monkeypatch):
    """Not before it is verified either where it had a name once: it is gone, or has moved."""
    name_tables(lake.run("one"), "raw", "decoded", "quarantine")  # nothing is decoded yet
    for name in (RAW, DECODED, BAD):
        del lake.catalog.entries[name]
    monkeypatch.setattr(naming, "now", lambda: context.now() + timedelta(hours=2))
    name_tables(lake.run("two"), "raw")
    assert [*lake.catalog.entries] == [RAW]
    assert findings(lake) == [("raw", None)]
    name_tables(lake.run("two"), "decoded", "quarantine")
    assert [*lake.catalog.entries] == [RAW, DECODED, BAD]


@pytest.mark.parametrize(
    ("entry", "finding"),
    [
        (CatalogEntry("/somewhere", "external", "delta"), "catalog_elsewhere"),
        (CatalogEntry("/somewhere", "view", ""), "catalog_not_ours"),
    ],
)
def test_a_name_of_somebody_elses_is_told_and_left(lake, entry, finding, caplog):
    lake.catalog.entries[DECODED] = entry
    lake.decodes("one")
    assert ("decoded", finding) in findings(lake)
    assert lake.catalog.entries[DECODED] is entry
    assert f"orders: {finding}: raw.orders_decoded" in caplog.text
    assert lake.typed() == [0]


def test_a_name_that_somebody_takes_meanwhile_is_read_back(lake):
    """A catalog may say of a second one that it was made."""
    taken = CatalogEntry("/somewhere", "external", "delta")
    lake.catalog.create = lambda name, uri, stream: lake.catalog.entries.update({name: taken})
    name_tables(lake.run("one"), "raw")
    assert findings(lake) == [("raw", "catalog_elsewhere")]


def test_a_schema_that_is_missing_is_not_made(lake):
    lake.catalog.schemas.clear()
    name_tables(lake.run("one"), "raw")
    assert findings(lake) == [("raw", "catalog_missing_schema")]
    assert not lake.catalog.entries


def test_whatever_a_client_raises_ends_no_run(lake, caplog):
    """And it is left alone for some minutes: by the other steps of the run, too."""

    def breaks():
        raise RuntimeError("a bug of\nsomebody's")

    lake.catalog.before = breaks
    name_tables(lake.run("one"), "raw")
    lake.decodes("one")
    assert (lake.typed(), lake.catalog.asked) == ([0], 1)
    assert findings(lake) == [("raw", "catalog_away")]
    assert "RuntimeError: a bug of somebody's" in caplog.text


def test_a_catalog_that_hangs_is_given_up(lake, monkeypatch):
    """What it has answered until then counts."""
    monkeypatch.setattr(naming, "_MOST_SECONDS", 0.3)
    monkeypatch.setattr(naming, "_silent", {})
    ended = Event()
    lake.catalog.before = lambda: ended.wait(60) if len(lake.catalog.entries) == 2 else None
    name_tables(lake.run("one"), "raw", "decoded", "quarantine")
    away = "catalog_away"
    assert findings(lake) == [("raw", None), ("decoded", away), ("quarantine", away)]
    asked = lake.catalog.asked
    lake.ledger.update(lambda s: s.with_head(replace(s.head, names=())))
    name_tables(lake.run("two"), "raw")  # of this stream or another: it is waited for once
    assert (findings(lake), lake.catalog.asked) == ([("raw", away)], asked)
    ended.set()


def test_a_ledger_that_does_not_take_it_ends_no_run(lake, monkeypatch, caplog):
    run = lake.run("one")

    def away(change):
        raise BadInput("not now")

    monkeypatch.setattr(run.ledger, "update", away)
    name_tables(run, "raw")
    assert "names are not noted: not now" in caplog.text


def test_a_catalog_in_memory_behaves():
    catalog = MemoryCatalog()
    behaves(catalog, "/lake", "raw.orders", catalog.schemas.add)


@pytest.fixture
def unity():
    server = UnityServer()
    yield server
    server.stop()


def connect(monkeypatch, kind, name="raw.orders", **parts):
    given = {"conn_type": kind, **parts}
    monkeypatch.setenv("AIRFLOW_CONN_CATALOG_OF_TESTS", json.dumps(given))
    return catalog_of("catalog_of_tests", name)


def test_unitys_rest_as_far_as_its_answers_are_known(unity, monkeypatch):
    """A path in the connection, a token, and columns that are left to the log."""
    extra = {"token": "t0ken"}
    catalog = connect(
        monkeypatch, "http", "lake.raw.orders", host="127.0.0.1", port=unity.port, extra=extra
    )
    behaves(catalog, "/lake", "lake.raw.orders", unity.schemas.add)
    assert set(unity.headers) == {"Bearer t0ken"}
    made = unity.tables["lake.raw.orders"]
    assert (made["storage_location"], made["columns"]) == ("file:///lake/orders", [])
    assert made["properties"] == {"tideline.stream": "orders"}


@pytest.mark.parametrize("status", [401, 403])
def test_a_token_that_unity_refuses_is_no_service_that_is_away(unity, monkeypatch, status):
    unity.refuses = status
    catalog = connect(
        monkeypatch, "http", "lake.raw.orders", host="127.0.0.1", port=unity.port, extra={}
    )
    with pytest.raises(AccessRefused, match=f"answers {status} .*: its token or login is refused"):
        catalog.find(TableName.of("lake.raw.orders"))


@pytest.mark.parametrize(
    ("kind", "name", "parts", "error", "said"),
    [
        ("http", "raw.orders", {"host": "h"}, BadInput, "catalog.schema.table"),
        ("hive_metastore", "a.b.c", {"host": "h"}, BadInput, "allowed .*: schema.table"),
        ("postgres", "raw.orders", {"host": "h"}, ConnectionMissing, "allowed: hive_metastore"),
    ],
)
def test_connections_that_are_refused(monkeypatch, kind, name, parts, error, said):
    with pytest.raises(error, match=said):
        connect(monkeypatch, kind, name, **parts)


@pytest.mark.parametrize("kind", ["hive_metastore", "aws"])
def test_a_client_that_is_not_installed_is_named(monkeypatch, kind):
    monkeypatch.setattr("tideline.catalog.catalog_connection.find_spec", lambda name: None)
    with pytest.raises(BadInput, match=r"pip install 'tideline\[(hive|glue)\]'"):
        connect(monkeypatch, kind, host="h")


FLEET = """
fleet: shop
topics: [shop.a-b, shop.c, Shop.A.B]
names: {shop.c: sea}
stream:
  stream: "{topic}"
  kafka: {connection: k}
  table: {uri: "/lake/{topic}"}
  catalog: {connection: hive, name: "raw.NAME"}
"""


def test_a_fleets_names_are_what_a_catalog_can_have(tmp_path):
    """Two topics that meet there are refused with both."""
    file = tmp_path / "shop.yaml"
    file.write_text(FLEET.replace("NAME", "t_{name}").replace(", Shop.A.B", ""))
    assert [s.catalog.name for s in read_file(file).streams] == ["raw.t_shop_a_b", "raw.t_sea"]
    file.write_text(FLEET.replace("NAME", "{topic}"))
    contents = read_file(file)
    assert [s.catalog.name for s in contents.streams] == ["raw.shop_c"]
    (problem,) = contents.problems
    assert (problem.line, problem.key) == (9, "stream.catalog.name")
    assert "Shop.A.B and shop.a-b meet here" in problem.allowed


@pytest.mark.parametrize("name", ["orders", "Raw.orders", "raw.or-ders", "a.b.c.d", "raw."])
def test_names_that_are_refused(name):
    text = "stream: a\nkafka: {connection: k, topics: [t]}\ntable: {uri: /lake/a}\n"
    with pytest.raises(StreamFileError, match=r"x:4: catalog.name: got "):
        parse_stream(f"{text}catalog: {{connection: c, name: '{name}'}}\n", "x")
