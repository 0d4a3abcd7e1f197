"""Airflow connections, found as Airflow finds them: secrets backends, environment, database."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tideline.errors import ConnectionMissing
from tideline.kafka_io.settings import KafkaSettings

CONNECT_PORT = 15002
"""Where a Spark Connect server listens by default."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The parts of an Airflow connection that are used here; password and extra may be secret."""

    conn_type: str
    host: str | None = None
    port: int | None = None
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    schema: str | None = None


def find_connection(connection_id: str) -> Connection | None:
    """A connection by its id, None if Airflow knows none.

    The JSON form in the environment is read here, as Airflow reads it when no other secrets
    backend is configured; everything else is asked of Airflow, whose import takes seconds.
    """
    in_environment = os.environ.get(f"AIRFLOW_CONN_{connection_id.upper()}", "")
    if in_environment.lstrip().startswith("{") and not os.environ.get("AIRFLOW__SECRETS__BACKEND"):
        return _from_json(connection_id, in_environment)
    return _from_airflow(connection_id)


def kafka_settings(connection_id: str) -> KafkaSettings:
    """The checked Kafka client properties of a connection.

    Raises:
        ConnectionMissing: There is no such connection, or it cannot be used.
    """
    found = find_connection(connection_id)
    if found is None:
        raise ConnectionMissing(
            f"kafka.connection: no Airflow connection {connection_id!r}; define it, for example as"
            f" AIRFLOW_CONN_{connection_id.upper()}="
            """'{"conn_type": "kafka", "extra": {"bootstrap.servers": "host:9092"}}'""",
            connection=connection_id,
        )
    if found.conn_type != "kafka":
        raise ConnectionMissing(
            f"connection {connection_id}: type {found.conn_type!r}; allowed: kafka",
            connection=connection_id,
        )
    return KafkaSettings(connection_id, found.extra)


def spark_master(connection_id: str) -> str:
    """The Spark master that a connection names; `local[*]` where it is not defined."""
    found = find_connection(connection_id)
    if found is None:
        return "local[*]"
    host = found.host or ""
    if found.conn_type == "spark" and ("://" in host or found.port is None):
        master = host
    else:
        master = f"{found.conn_type}://{host}"
    return f"{master}:{found.port}" if found.port else master


def connect_url(connection_id: str) -> str | None:
    """Where a connection's Spark Connect server is; None for every other type of connection."""
    found = find_connection(connection_id)
    if found is None or found.conn_type != "spark_connect":
        return None
    host = (found.host or "").removeprefix("sc://")
    if not host or "/" in host:
        raise ConnectionMissing(
            f"connection {connection_id}: host {found.host!r}; allowed: a server's name",
            connection=connection_id,
        )
    given = {
        "user_id": found.login,
        "token": found.password,
        "use_ssl": found.extra.get("use_ssl"),
    }
    parameters = ";".join(f"{k}={quote(str(v))}" for k, v in given.items() if v is not None)
    port = found.port or (None if ":" in host else CONNECT_PORT)
    return f"sc://{host}{f':{port}' if port else ''}/;{parameters}".removesuffix(";")


def _from_json(connection_id: str, text: str) -> Connection:
    try:
        data = json.loads(text)
        extra = data.get("extra") or {}
        if isinstance(extra, str):
            extra = json.loads(extra)
        port = data.get("port")
        return Connection(
            conn_type=str(data["conn_type"]),
            host=data.get("host"),
            port=None if port is None else int(port),
            extra=dict(extra),
            login=data.get("login"),
            password=data.get("password"),
            schema=data.get("schema"),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConnectionMissing(
            f"AIRFLOW_CONN_{connection_id.upper()} is no connection in Airflow's JSON form:"
            f" {type(error).__name__}; it needs conn_type, and extra as an object",
            connection=connection_id,
        ) from None


def _from_airflow(connection_id: str) -> Connection | None:
    with _own_logging():
        from airflow.models.connection import Connection as AirflowConnection
        from airflow.sdk.exceptions import AirflowNotFoundException

        try:
            found = AirflowConnection.get_connection_from_secrets(connection_id)
        except AirflowNotFoundException:
            return None
    return Connection(
        found.conn_type or "",
        found.host,
        found.port,
        found.extra_dejson,
        found.login,
        found.password,
        found.schema,
    )


@contextmanager
def _own_logging() -> Iterator[None]:
    """Keep Airflow's first import from taking logging over and from writing to standard output."""
    if "airflow" in sys.modules:
        yield
        return
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with redirect_stdout(sys.stderr):
        yield
    root.handlers[:] = handlers
    root.setLevel(level)
