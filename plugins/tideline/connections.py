"""Look up Airflow connections as Airflow does: secrets backends, environment, database."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Iterator
from configparser import Error as ConfigParserError
from configparser import RawConfigParser
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from tideline.errors import ConnectionMissing
from tideline.kafka.settings import NO_SECRETS, KafkaSettings
from tideline.registry.connecting import RegistrySettings, read_settings
from tideline.secrecy import mask, secrets_in
from tideline.store import settings as store

_BACKENDS = (("secrets", "backend"), ("workers", "secrets_backend"))
"""Section and key of Airflow's options that name a secrets backend."""
CONNECT_PORT = 15002
"""Default port of a Spark Connect server."""


_SERVER = re.compile(r"[\w.:\[\]-]+")
LOCAL_MASTER = "local[*]"
"""Spark's master where the connection is not defined."""


@dataclass(frozen=True, slots=True)
class Connection:
    """The parts of an Airflow connection that Tideline uses; password and extra may be secret."""

    conn_type: str
    host: str | None = None
    port: int | None = None
    extra: dict[str, Any] = field(default_factory=dict, repr=False)
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    schema: str | None = None


def find_connection(connection_id: str) -> Connection | None:
    """A connection by its id; None if Airflow does not know it.

    A connection in the environment, in JSON form, is read here, unless a secrets backend comes
    first. Airflow would read the same, but its import takes seconds. Airflow looks up everything
    else. Its secrets are masked in a task's log.

    Raises:
        ConnectionMissing: The JSON in the environment is not a connection.
    """
    in_environment = os.environ.get(f"AIRFLOW_CONN_{connection_id.upper()}", "")
    if in_environment.lstrip().startswith("{") and not has_backend():
        found: Connection | None = _from_json(connection_id, in_environment)
    else:
        found = _from_airflow(connection_id)
    if found is not None:
        mask([found.password, *secrets_in(found.extra)])
    return found


def has_backend() -> bool:
    """Whether Airflow is configured to ask a secrets backend before the environment.

    Where Airflow is loaded it is asked. Elsewhere the same places are looked at, without the
    seconds that its import takes: variables, and the file that `AIRFLOW_CONFIG` names or that lies
    in `AIRFLOW_HOME`.
    """
    airflow = sys.modules.get("airflow.sdk.configuration") or sys.modules.get(
        "airflow.configuration"
    )
    if airflow is not None and hasattr(airflow, "conf"):
        return any(airflow.conf.get(*option, fallback="") for option in _BACKENDS)
    if any(
        value and name.startswith(f"AIRFLOW__{section}__{key}".upper())
        for name, value in os.environ.items()
        for section, key in _BACKENDS
        if not name.upper().endswith("_KWARGS")
    ):
        return True
    home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
    path = os.environ.get("AIRFLOW_CONFIG") or os.path.join(home, "airflow.cfg")
    written = RawConfigParser(strict=False)
    try:
        written.read(os.path.expanduser(os.path.expandvars(path)), encoding="utf-8")
    except (ConfigParserError, UnicodeDecodeError):
        return True  # it is Airflow's to say what is wrong with it
    return any(
        written.get(section, f"{key}{how}", fallback="").strip()
        for section, key in _BACKENDS
        for how in ("", "_cmd", "_secret")
    )


def kafka_settings(connection_id: str) -> KafkaSettings:
    """The checked Kafka client properties of a connection.

    Raises:
        ConnectionMissing: There is no such connection, its type is not kafka, or a property is
            not allowed.
    """
    example = '{"conn_type": "kafka", "extra": {"bootstrap.servers": "host:9092"}}'
    connection = _required(connection_id, "kafka", key="kafka.connection", example=example)
    settings = KafkaSettings(connection_id, connection.extra)
    options = settings.for_spark()  # with the client's key, and the login as Java has it
    mask(value for name, value in options.items() if name not in NO_SECRETS)
    return settings


def registry_settings(connection_id: str) -> RegistrySettings:
    """The checked settings of a schema registry's connection.

    Raises:
        ConnectionMissing: There is no such connection, its type is not http, or a part of it is
            not allowed.
    """
    example = '{"conn_type": "http", "host": "https://registry:8081"}'
    connection = _required(connection_id, "http", key="registry.connection", example=example)
    return read_settings(
        connection_id,
        host=connection.host,
        port=connection.port,
        scheme=connection.schema,
        login=connection.login,
        password=connection.password,
        extra=connection.extra,
    )


def store_settings(connection_id: str | None) -> store.StoreSettings:
    """The checked settings of an object store's connection; None for the default chains.

    Raises:
        ConnectionMissing: There is no such connection, its type is not aws, or a part of it is not
            allowed.
    """
    if connection_id is None:
        return store.StoreSettings()
    example = (
        """{"conn_type": "aws", "login": "ACCESS_KEY", "password": "SECRET_KEY","""
        """ "extra": {"region_name": "eu-central-1"}}"""
    )
    connection = _required(connection_id, "aws", key="table.connection", example=example)
    return store.read_settings(
        connection_id,
        login=connection.login,
        password=connection.password,
        extra=connection.extra,
    )


def _required(connection_id: str, conn_type: str, *, key: str, example: str) -> Connection:
    """A connection that has to be there.

    Args:
        connection_id: Its id.
        conn_type: The only type that is allowed.
        key: Of the stream file that names it.
        example: A connection in Airflow's JSON form.

    Raises:
        ConnectionMissing: It is not there, or has another type.
    """
    connection = find_connection(connection_id)
    if connection is None:
        raise ConnectionMissing(
            f"{key}: no Airflow connection {connection_id!r}; define it, for example as"
            f" AIRFLOW_CONN_{connection_id.upper()}='{example}'",
            connection=connection_id,
        )
    if connection.conn_type != conn_type:
        raise ConnectionMissing(
            f"connection {connection_id}: type {connection.conn_type!r}; allowed: {conn_type}",
            connection=connection_id,
        )
    return connection


def spark_master(connection_id: str, connection: Connection | None) -> str:
    """The Spark master that a connection names; `local[*]` if it is not defined.

    Raises:
        ConnectionMissing: There is a login in the host.
    """
    if connection is None:
        return LOCAL_MASTER
    host = connection.host or ""
    if "@" in host:
        raise ConnectionMissing(
            f"connection {connection_id}: host: a login in it; allowed: a master's address",
            connection=connection_id,
        )
    if connection.conn_type == "spark" and ("://" in host or connection.port is None):
        master = host
    else:
        master = f"{connection.conn_type}://{host}"
    return f"{master}:{connection.port}" if connection.port else master


def connect_url(connection_id: str, connection: Connection | None) -> str | None:
    """The URL of a connection's Spark Connect server, without its token: Spark prints URLs.

    Returns:
        None if the connection is not defined, or its type is not spark_connect.

    Raises:
        ConnectionMissing: The host is not a server's name.
    """
    if connection is None or connection.conn_type != "spark_connect":
        return None
    host = (connection.host or "").removeprefix("sc://")
    # It is not shown: somebody may have put the token into it.
    if not host or not _SERVER.fullmatch(host):
        raise ConnectionMissing(
            f"connection {connection_id}: host: not usable; allowed: a server's name, and perhaps a"
            " port; user id, token and TLS are login, password and use_ssl in the extra",
            connection=connection_id,
        )
    given = {"user_id": connection.login, "use_ssl": connection.extra.get("use_ssl")}
    parameters = ";".join(f"{k}={quote(str(v))}" for k, v in given.items() if v is not None)
    port = connection.port or (None if ":" in host else CONNECT_PORT)
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
            f"AIRFLOW_CONN_{connection_id.upper()} is not a connection in Airflow's JSON form:"
            f" {type(error).__name__}; it needs conn_type, and an object as extra",
            connection=connection_id,
        ) from None


def _from_airflow(connection_id: str) -> Connection | None:
    with _own_logging():
        from airflow.models.connection import Connection as AirflowConnection
        from airflow.sdk.exceptions import AirflowNotFoundException

        try:
            connection = AirflowConnection.get_connection_from_secrets(connection_id)
        except AirflowNotFoundException:
            return None
    return Connection(
        connection.conn_type or "",
        connection.host,
        connection.port,
        connection.extra_dejson,
        connection.login,
        connection.password,
        connection.schema,
    )


@contextmanager
def _own_logging() -> Iterator[None]:
    """Undo what Airflow's first import does to logging, and keep it off standard output."""
    if "airflow" in sys.modules:
        yield
        return
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    with redirect_stdout(sys.stderr):
        yield
    root.handlers[:] = handlers
    root.setLevel(level)
