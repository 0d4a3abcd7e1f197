"""The database behind the Airflow connection that a stream's `ledger_connection` names."""

from __future__ import annotations

from urllib.parse import quote

from sqlalchemy.engine import URL

from tideline.connections import Connection, find_connection
from tideline.errors import ConnectionMissing

_POSTGRES_EXTRA = (
    "application_name",
    "connect_timeout",
    "options",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslrootcert",
    "target_session_attrs",
)


def ledger_url(connection_id: str) -> URL:
    """The database's address, including its password.

    Raises:
        ConnectionMissing: There is no such connection, or it cannot be used.
    """
    found = find_connection(connection_id)
    if found is None:
        raise ConnectionMissing(
            f"ledger_connection: no Airflow connection {connection_id!r}; define it, for example as"
            f" AIRFLOW_CONN_{connection_id.upper()}="
            """'{"conn_type": "postgres", "host": "db", "login": "airflow", "password": "...","""
            """ "schema": "airflow"}'; Airflow's own metadata database is the best choice""",
            connection=connection_id,
        )
    kind = found.conn_type.partition("+")[0]
    if kind in ("postgres", "postgresql"):
        return _postgres(connection_id, found)
    if kind == "sqlite":
        return _sqlite(connection_id, found)
    raise _refused(connection_id, f"type {found.conn_type!r}; allowed: postgres, sqlite")


def _postgres(connection_id: str, found: Connection) -> URL:
    missing = [name for name in ("host", "schema") if not getattr(found, name)]
    if missing:
        raise _refused(
            connection_id,
            f"{missing[0]} is missing; a postgres connection needs host and schema (the database),"
            " usually also login and password",
        )
    if "@" in str(found.host):  # it would be shown wherever the host is
        raise _refused(connection_id, "host: a login in it; allowed: a server's name")
    unknown = sorted(set(found.extra) - set(_POSTGRES_EXTRA))
    if unknown:
        allowed = ", ".join(_POSTGRES_EXTRA)
        raise _refused(connection_id, f"extra {unknown[0]}: unknown key; allowed: {allowed}")
    return URL.create(
        "postgresql+psycopg2",
        username=found.login,
        password=found.password,
        host=found.host,
        port=found.port,
        database=found.schema,
        query={name: str(value) for name, value in found.extra.items()},
    )


def _sqlite(connection_id: str, found: Connection) -> URL:
    path = found.host or found.schema or ""
    if not path.startswith("/"):
        what = "a sqlite connection needs the absolute path of the file as its host"
        raise _refused(connection_id, what)
    # mode=rw: a wrong path must not leave an empty database behind
    return URL.create("sqlite", database=f"file:{quote(path)}", query={"mode": "rw", "uri": "true"})


def _refused(connection_id: str, what: str) -> ConnectionMissing:
    return ConnectionMissing(f"connection {connection_id}: {what}", connection=connection_id)
