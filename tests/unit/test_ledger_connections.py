"""Which Airflow connections lead to a ledger's database, and what is said about the others."""

import json

import pytest

from tideline.connections import find_connection
from tideline.errors import ConnectionMissing
from tideline.ledger.connection import ledger_url

POSTGRES = {
    "conn_type": "postgres",
    "host": "db",
    "port": 5433,
    "login": "airflow",
    "password": "canary/se:cret@",
    "schema": "meta",
    "extra": {"sslmode": "verify-full"},
}


@pytest.fixture
def define(monkeypatch):
    """Put a connection `home` into the environment, in Airflow's JSON form."""

    def put(**changes):
        monkeypatch.setenv("AIRFLOW_CONN_HOME", json.dumps({**POSTGRES, **changes}))

    return put


def test_a_postgres_connection_s_parts_arrive(define):
    """Whatever its password is made of."""
    define()
    url = ledger_url("home")
    assert (url.drivername, url.host, url.port) == ("postgresql+psycopg2", "db", 5433)
    assert (url.username, url.password, url.database) == ("airflow", "canary/se:cret@", "meta")
    assert dict(url.query) == {"sslmode": "verify-full"}
    assert "canary" not in f"{url} {url!r} {find_connection('home')!r}"


@pytest.mark.parametrize("kind", ["postgresql", "postgresql+psycopg2"])
def test_other_names_of_postgres_are_known(define, kind):
    """As SQLAlchemy's addresses begin."""
    define(conn_type=kind)
    assert ledger_url("home").drivername == "postgresql+psycopg2"


def test_a_sqlite_file_is_never_created(define, tmp_path):
    """A wrong path must not leave an empty database behind."""
    define(conn_type="sqlite", host=str(tmp_path / "a b.db"), schema=None, extra={})
    url = ledger_url("home")
    assert url.database == f"file:{tmp_path}/a%20b.db"
    assert url.query["mode"] == "rw"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"conn_type": "mysql"}, "type 'mysql'; allowed: postgres, sqlite"),
        ({"schema": None}, "schema is missing"),
        ({"host": ""}, "host is missing"),
        ({"extra": {"iam": True}}, "extra iam: unknown key; allowed: application_name"),
        ({"conn_type": "sqlite", "host": "relative.db"}, "absolute path"),
    ],
)
def test_what_cannot_be_used_is_refused_without_its_password(define, changes, said):
    """The id, what is wrong, and what is allowed."""
    define(**changes)
    with pytest.raises(ConnectionMissing) as refused:
        ledger_url("home")
    assert said in refused.value.message
    assert "connection home" in refused.value.message
    assert "canary" not in refused.value.message
