"""What a Spark connection asks for: master, deploy mode and what spark-submit has options for.

The keys of its extra mean what they mean to Airflow's Spark provider, which reads the connection
by itself where Airflow runs the task. Keys that the provider does not know are nobody's, and pass.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tideline.connections import Connection, refused

_CONNECT_PORT = 15002
"""Default port of a Spark Connect server."""
_SERVER = re.compile(r"[\w.:\[\]-]+")
"""Names, addresses and ports; no `;` or `/`, which would add parameters to the URL."""
SPARK_SUBMIT = "spark-submit"
_BINARIES = (SPARK_SUBMIT, "spark2-submit", "spark3-submit")
_ALLOWED = {"deploy-mode": ("client", "cluster"), "spark-binary": _BINARIES}
_OPTIONS = {"queue": "--queue", "principal": "--principal"}
_WITHOUT_EFFECT = ("rest-scheme", "rest-port", "yarn_resourcemanager_webapp_address")
"""For the provider's ways to follow a driver that spark-submit does not wait for."""
_KEYS = (*_ALLOWED, *_OPTIONS, "namespace", "keytab", *_WITHOUT_EFFECT)


@dataclass(frozen=True, slots=True)
class Target:
    """Where an application runs.

    Args:
        master: Spark master URL.
        is_elsewhere: Whether the driver runs on the cluster (deploy mode cluster).
        is_default: Whether no connection names the master.
        binary: Name of the command that submits.
        options: More options of it, by name.
        conf: Spark properties.
        keytab: Content of a Kerberos keytab, in base64; secret.
    """

    master: str
    is_elsewhere: bool = False
    is_default: bool = False
    binary: str = SPARK_SUBMIT
    options: Mapping[str, str] = field(default_factory=dict)
    conf: Mapping[str, str] = field(default_factory=dict)
    keytab: str | None = field(default=None, repr=False)

    def options_with_files(self, folder: Path) -> dict[str, str]:
        """The options, and that of the keytab, which becomes a file in a job's folder."""
        if self.keytab is None:
            return dict(self.options)
        file = private_file(folder, "keytab", base64.b64decode(self.keytab))
        return {**self.options, "--keytab": file}


def private_file(folder: Path, name: str, content: bytes) -> str:
    """A file that its owner alone can read; its path."""
    path = folder / name
    path.touch(mode=0o600)
    path.write_bytes(content)
    return str(path)


def target_of(connection_id: str, connection: Connection | None) -> Target:
    """Where a connection lets applications run; one that is not defined means `local[*]`.

    Raises:
        ConnectionMissing: A key or a value is not allowed, or the master has no such deploy mode.
    """
    master = spark_master(connection_id, connection)
    if connection is None:
        return Target(master, is_default=True)
    given = {key: value for key, value in connection.extra.items() if value not in (None, "")}
    _check(connection_id, given)
    is_elsewhere = given.get("deploy-mode") == "cluster"
    if is_elsewhere and not (master == "yarn" or master.startswith("k8s://")):
        raise refused(
            connection_id,
            "extra deploy-mode",
            f"cluster, with the master {master}",
            "client; cluster only with yarn or k8s://: no other master runs the driver of a Python"
            " application",
        )
    conf = {}
    if "namespace" in given and master.startswith("k8s://"):
        conf["spark.kubernetes.namespace"] = str(given["namespace"])
    return Target(
        master,
        is_elsewhere=is_elsewhere,
        binary=str(given.get("spark-binary", SPARK_SUBMIT)),
        options={option: str(given[key]) for key, option in _OPTIONS.items() if key in given},
        conf=conf,
        keytab=given.get("keytab"),
    )


def _check(connection_id: str, given: Mapping[str, Any]) -> None:
    for key, allowed in _ALLOWED.items():
        if key in given and given[key] not in allowed:
            raise refused(connection_id, f"extra {key}", "another value", ", ".join(allowed))
    try:
        base64.b64decode(str(given.get("keytab", "")), validate=True)
    except binascii.Error:
        raise refused(
            connection_id, "extra keytab", "no base64", "a keytab file in base64"
        ) from None
    if "spark-home" in given:
        raise refused(
            connection_id, "extra spark-home", "not allowed", "SPARK_HOME in the environment"
        )
    for key in given:
        if key not in _KEYS and (meant := _spelt(key)) is not None:
            raise refused(
                connection_id, f"extra {key}", "unknown", f"{meant}, as Airflow's provider reads it"
            )


def _spelt(key: str) -> str | None:
    """The key that is meant by one with other dashes; None if none is."""
    return next((k for k in _KEYS if k.replace("-", "_") == key.replace("-", "_").lower()), None)


def spark_master(connection_id: str, connection: Connection | None) -> str:
    """The Spark master that a connection names; `local[*]` if it is not defined.

    Raises:
        ConnectionMissing: There is a login in the host.
    """
    if connection is None:
        return "local[*]"
    host = connection.host or ""
    if "@" in host:
        raise refused(connection_id, "host", "a login in it", "a master's address")
    if connection.conn_type == "spark" and ("://" in host or connection.port is None):
        master = host
    else:
        master = f"{connection.conn_type}://{host}"
    return f"{master}:{connection.port}" if connection.port else master


def connect_url(connection_id: str, connection: Connection | None) -> str | None:
    """The URL of a connection's Spark Connect server, without its token: Spark prints URLs.

    None if the connection is not defined, or its type is not spark_connect.

    Raises:
        ConnectionMissing: The host is not a server's name.
    """
    if connection is None or connection.conn_type != "spark_connect":
        return None
    host = (connection.host or "").removeprefix("sc://")
    # It is not shown: somebody may have put the token into it.
    if not host or not _SERVER.fullmatch(host):
        raise refused(
            connection_id,
            "host",
            "not usable",
            "a server's name, and perhaps a port; user id, token and TLS are login, password and"
            " use_ssl in the extra",
        )
    given = {"user_id": connection.login, "use_ssl": connection.extra.get("use_ssl")}
    parameters = ";".join(f"{k}={quote(str(v))}" for k, v in given.items() if v is not None)
    port = connection.port or (None if ":" in host else _CONNECT_PORT)
    return f"sc://{host}{f':{port}' if port else ''}/;{parameters}".removesuffix(";")
