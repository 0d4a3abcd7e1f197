"""How the object store of a stream is reached: one connection, of the type of its addresses.

| addresses | connection | module |
|---|---|---|
| `s3a://` | `aws` | `store.s3` |
| `abfss://` | `wasb`, `adls` | `store.azure` |
| `gs://` | `google_cloud_platform` | `store.google` |

The same settings are spelled twice: as options for delta-rs and obstore, with how long they wait,
and for Spark as variables of its process, which hold the secrets, and as properties of Hadoop's
client, which hold none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from tideline.connections import Connection, required
from tideline.model.addresses import StoreKind, store_of
from tideline.store import azure, google, s3

CONNECTION = "tideline.connection"
"""The option that names the Airflow connection, for messages. delta-rs passes over it."""
_RETRIES = 7
_RETRY_SECONDS = 15
_CONNECT_SECONDS = 3
LIMITS = {
    "max_retries": str(_RETRIES),
    "retry_timeout": f"{_RETRY_SECONDS}s",
    "connect_timeout": f"{_CONNECT_SECONDS}s",
}
"""Shorter than object_store's own, ten in three minutes: the run itself is tried again later."""
ROLE = s3.ROLE
_CLIENT = ("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "proxy_url")
_RETRY = ("max_retries", "retry_timeout", CONNECTION)


class StoreSettings(Protocol):
    """How one kind of store is reached."""

    @property
    def kind(self) -> StoreKind:
        """Which one; the set of jars for it has the same name."""

    @property
    def connection(self) -> str | None:
        """Id of the Airflow connection, for messages; None means that nobody has named one.

        Then delta-rs and Spark each look along their own default chain: variables, profiles, the
        machine's identity.
        """

    def for_delta(self) -> dict[str, str]:
        """Options of delta-rs; what is not named here it takes from the environment."""

    def environment(self) -> dict[str, str]:
        """Variables that hold the secrets, for a process with Spark's driver."""

    def within(self, variables: Mapping[str, str]) -> dict[str, str]:
        """A process's variables with those of this store instead of what was there.

        Credentials stay where the connection has none.
        """

    def for_spark(self) -> dict[str, str]:
        """Properties of Hadoop's client; none is a secret."""

    def refuse_cluster(self) -> None:
        """Refuse secrets that executors on other machines do not get.

        Raises:
            ConnectionMissing: There is one.
        """


_TYPES: Mapping[StoreKind, tuple[Sequence[str], str]] = {
    "s3a": (("aws",), s3.EXAMPLE),
    "azure": (("wasb", "adls"), azure.EXAMPLE),
    "google": (("google_cloud_platform",), google.EXAMPLE),
}
"""Types of a connection, and an example."""


def store_settings(connection_id: str | None, uri: str) -> StoreSettings:
    """The checked settings of an object store's connection; without one, of the default chains.

    Args:
        connection_id: Of the Airflow connection, if one is named.
        uri: An address in the store: it says which kind it is.

    Raises:
        ConnectionMissing: There is no such connection, its type is not that of the address, or a
            part of it is not allowed.
    """
    kind = store_of(uri)
    assert kind is not None, uri
    if connection_id is None:
        found: dict[StoreKind, Callable[[], StoreSettings]] = {
            "s3a": s3.S3Settings,
            "azure": azure.from_environment,
            "google": google.from_environment,
        }
        return found[kind]()
    types, example = _TYPES[kind]
    given = required(connection_id, *types, key="table.connection", example=example)
    read: dict[StoreKind, Callable[[str, Connection, str], StoreSettings]] = {
        "s3a": s3.read_settings,
        "azure": azure.read_settings,
        "google": google.read_settings,
    }
    return read[kind](connection_id, given, uri)


def with_limits(options: Mapping[str, str], connection: str | None = None) -> dict[str, str]:
    """delta-rs' options that bound how long a store that is away is tried; given ones stay.

    Args:
        connection: Id of the Airflow connection, for messages.
    """
    named = {} if connection is None else {CONNECTION: connection}
    return {**LIMITS, **options, **named}


def for_obstore(options: Mapping[str, str]) -> dict[str, Any]:
    """The same store for obstore: arguments of its client, but for bucket and prefix."""
    named = {name.lower(): value for name, value in options.items()}
    client = {
        name: found[0]
        for name in _CLIENT
        if (found := [v for p in ("aws_", "azure_", "") if (v := named.pop(p + name, None))])
    }
    for name in _RETRY:
        named.pop(name, None)
    return {
        "config": named,
        "client_options": {"connect_timeout": f"{_CONNECT_SECONDS}s", **client},
        "retry_config": {
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
        },
    }
