"""delta-rs options of an object store: how long it is waited for, and the same for obstore."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

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
ROLE = "AWS_IAM_ROLE_ARN"
"""A role that delta-rs assumes, and obstore cannot."""
_CLIENT = ("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout", "proxy_url")
_RETRY = ("max_retries", "retry_timeout", CONNECTION)


def with_limits(options: Mapping[str, str], connection: str | None = None) -> dict[str, str]:
    """Options that bound how long a store that is away is tried; given ones stay.

    Args:
        options: delta-rs options of the object store.
        connection: Id of the Airflow connection, for messages.
    """
    named = {} if connection is None else {CONNECTION: connection}
    return {**LIMITS, **options, **named}


def for_obstore(options: Mapping[str, str]) -> dict[str, Any]:
    """The same store for obstore: arguments of `S3Store`, but for bucket and prefix.

    Args:
        options: delta-rs options of the object store.
    """
    named = {name.lower(): value for name, value in options.items()}
    client = {
        name: value
        for name in _CLIENT
        if (value := named.pop(f"aws_{name}", named.pop(name, None))) is not None
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
