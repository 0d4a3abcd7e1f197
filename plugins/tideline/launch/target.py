"""What a Spark connection asks for: master, deploy mode and what spark-submit has options for.

The keys of its extra mean what they mean to Airflow's Spark provider, which reads the connection
by itself where Airflow runs the task. Keys that the provider does not know are nobody's, and pass.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tideline.connections import Connection, spark_master
from tideline.errors import ConnectionMissing

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
        """The options, and that of the keytab, which becomes a file.

        Args:
            folder: For the file; gone with the job.
        """
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
    """Where a connection lets applications run.

    Args:
        connection_id: For messages.
        connection: None where it is not defined, which means `local[*]`.

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
        raise _refused(
            connection_id,
            "deploy-mode",
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
            raise _refused(connection_id, key, "another value", ", ".join(allowed))
    try:
        base64.b64decode(str(given.get("keytab", "")), validate=True)
    except binascii.Error:
        raise _refused(connection_id, "keytab", "no base64", "a keytab file in base64") from None
    if "spark-home" in given:
        raise _refused(connection_id, "spark-home", "not allowed", "SPARK_HOME in the environment")
    for key in given:
        if key not in _KEYS and (meant := _spelt(key)) is not None:
            raise _refused(
                connection_id, key, "unknown", f"{meant}, as Airflow's provider reads it"
            )


def _spelt(key: str) -> str | None:
    """The key that is meant by one with other dashes; None if none is."""
    return next((k for k in _KEYS if k.replace("-", "_") == key.replace("-", "_").lower()), None)


def _refused(connection_id: str, key: str, actual: str, allowed: str) -> ConnectionMissing:
    return ConnectionMissing(
        f"connection {connection_id}: extra {key}: {actual}; allowed: {allowed}",
        connection=connection_id,
        property=key,
    )
