"""Airflow's connections: looked up as Airflow does, and one way to refuse a part of one.

Airflow asks its secrets backends, then the environment, then its database. What the parts mean say
`kafka.kafka_settings`, `registry.registry_connection`, `store.store_settings`, `launch.target`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from configparser import Error as ConfigParserError
from configparser import RawConfigParser
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tideline.errors import ConnectionMissing
from tideline.secrecy import mask, secrets_in, without_login

_BACKENDS = (("secrets", "backend"), ("workers", "secrets_backend"))
"""Section and key of Airflow's options that name a secrets backend."""


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


def required(connection_id: str, *conn_types: str, key: str, example: str) -> Connection:
    """A connection that has to be there, and of one of some types.

    Args:
        conn_types: Which ones.
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
    if connection.conn_type not in conn_types:
        raise ConnectionMissing(
            f"connection {connection_id}: type {without_login(repr(connection.conn_type))};"
            f" allowed: {', '.join(conn_types)}",
            connection=connection_id,
        )
    return connection


def refused(connection_id: str, part: str, actual: str, allowed: str) -> ConnectionMissing:
    """The error for a part of a connection that cannot be used, as `host` or `extra token`.

    Args:
        actual: What is wrong with it; never a value that may be secret.
        allowed: What could stand there.
    """
    return ConnectionMissing(
        f"connection {connection_id}: {part}: {actual}; allowed: {allowed}",
        connection=connection_id,
    )


def refuse_others(
    connection_id: str, extra: Mapping[str, Any], allowed: Sequence[str], word: str = "unknown"
) -> None:
    """Refuse keys of the extra that nobody reads: the connection would seem to ask for them.

    Raises:
        ConnectionMissing: There is one.
    """
    if others := sorted(set(extra) - set(allowed)):
        raise refused(connection_id, f"extra {others[0]}", word, f"one of {', '.join(allowed)}")


def refuse_variables(connection_id: str, names: Sequence[str]) -> None:
    """Refuse variables of this process that a client would take beside a connection's parts.

    Args:
        names: Of the variables.

    Raises:
        ConnectionMissing: One is set.
    """
    if mixed := sorted(name for name in names if os.environ.get(name)):
        raise ConnectionMissing(
            f"connection {connection_id}: {mixed[0]} is set for this process as well, and the"
            " store's client would take it; unset it, or remove table.connection",
            connection=connection_id,
        )


def refuse_on_cluster(connection_id: str | None, secret: str, allowed: str) -> NoReturn:
    """Refuse a secret that only the driver's machine would have.

    Args:
        connection_id: None where it comes from the environment.
        secret: Which kind, in words.
        allowed: What could stand there.

    Raises:
        ConnectionMissing: Always.
    """
    named = "" if connection_id is None else f"connection {connection_id}: "
    raise ConnectionMissing(
        f"{named}{secret} reaches no executor on another machine; allowed on a cluster: {allowed}",
        connection=connection_id,
    )


def given_only(settings: Mapping[str, str | None]) -> dict[str, str]:
    """Settings without those that are None."""
    return {name: value for name, value in settings.items() if value is not None}


def refuse_missing_files(
    connection_id: str, extra: Mapping[str, Any], names: Sequence[str]
) -> None:
    """Refuse paths of the extra where no file lies.

    Raises:
        ConnectionMissing: There is one.
    """
    for name in names:
        path = extra.get(name)
        if path is not None and not Path(path).is_file():
            raise refused(connection_id, f"extra {name}", _shown(path), "a file that can be read")


def _shown(path: object) -> str:
    """A path in a connection; what is none may be the file's content, with a key in it."""
    text = str(path)
    return repr(text) if text.startswith(("/", ".")) and len(text) < 300 else "no path"


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
        why = "a part of it has another type"  # no message of Python's: it may show a secret
        if isinstance(error, json.JSONDecodeError):
            why = f"it is no JSON from character {error.pos + 1} on"
        elif isinstance(error, KeyError):
            why = "it has no conn_type"
        raise ConnectionMissing(
            f"AIRFLOW_CONN_{connection_id.upper()} is not a connection in Airflow's JSON form:"
            f" {why}; allowed: an object with conn_type, and with an object as extra",
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
