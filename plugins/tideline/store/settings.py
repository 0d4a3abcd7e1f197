"""The checked settings of an object store, from an Airflow connection of type `aws`.

Login, password and the keys below mean what they mean to Airflow's Amazon provider. Any other key
is refused: with it, a connection would seem to ask for what nobody does.

The same settings are spelled twice: as options for delta-rs and obstore, with how long they wait,
and for Spark as variables of its process, which hold the secrets, and as properties of Hadoop's S3A
client, which hold none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from tideline.connections import Connection, refuse_others, refused, required
from tideline.secrecy import without_login

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

_EXAMPLE = (
    """{"conn_type": "aws", "login": "ACCESS_KEY", "password": "SECRET_KEY","""
    """ "extra": {"region_name": "eu-central-1"}}"""
)
ALLOWED = ("aws_session_token", "region_name", "endpoint_url", "role_arn")
DEFAULT_REGION = "us-east-1"
"""What S3-compatible stores expect where nobody has named a region."""
_PLACE = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3")
_CREDENTIALS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"),
    *("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE"),
)
"""Variables that would mix with a connection's own: a process of ours is started without them."""
_SESSION_NAME = "tideline"
_ASSUMED_ROLE = "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"
_WHO_ASSUMES = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,"
    "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
)
"""What Spark hands its executors, otherwise what the driver's process finds."""
_FORMS = {
    "region_name": (re.compile(r"[a-z0-9-]{1,64}"), "a region as in eu-central-1"),
    "role_arn": (
        re.compile(r"arn:[\w-]+:iam::\d{12}:role/[\w+=,.@/-]+"),
        "an ARN as in arn:aws:iam::123456789012:role/lake",
    ),
}


def store_settings(connection_id: str | None) -> StoreSettings:
    """The checked settings of an object store's connection; None for the default chains.

    Raises:
        ConnectionMissing: There is no such connection, its type is not aws, or a part of it is not
            allowed.
    """
    if connection_id is None:
        return StoreSettings()
    found = required(connection_id, "aws", key="table.connection", example=_EXAMPLE)
    return read_settings(connection_id, found)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """How the object store of one stream is reached.

    Args:
        connection: Id of the Airflow connection, for messages. None means that nobody has named
            one: delta-rs and Spark each look along their own default chain (variables, profiles,
            the machine's role).
        access_key: With its secret; None leaves finding credentials to the default chains.
        secret_key: Its secret.
        session_token: Of temporary credentials.
        region: The bucket's.
        endpoint: URL of a store other than Amazon's.
        role: ARN of a role to assume with the environment's credentials.
    """

    connection: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    role: str | None = None

    def for_delta(self) -> dict[str, str]:
        """Options of delta-rs; what is not named here it takes from the environment."""
        return _given(
            {
                "AWS_ACCESS_KEY_ID": self.access_key,
                "AWS_SECRET_ACCESS_KEY": self.secret_key,
                # Without one, delta-rs would send the environment's beside our key.
                "AWS_SESSION_TOKEN": self.session_token,
                "AWS_REGION": self._region(self.endpoint),
                "AWS_ENDPOINT_URL": self.endpoint,
                "AWS_ALLOW_HTTP": "true" if (self._endpoint or "").startswith("http:") else None,
                ROLE: self.role,
                "AWS_IAM_ROLE_SESSION_NAME": _SESSION_NAME if self.role else None,
                # With an endpoint, delta-rs would pass over the role without a word.
                "AWS_FORCE_CREDENTIAL_LOAD": "true" if self.role else None,
            }
        )

    def environment(self) -> dict[str, str]:
        """Variables that hold the secrets, for a process with Spark's driver.

        Spark hands them to its executors as properties of S3A.
        """
        return _given(
            {
                "AWS_ACCESS_KEY_ID": self.access_key,
                "AWS_SECRET_ACCESS_KEY": self.secret_key,
                "AWS_SESSION_TOKEN": self.session_token,
                "AWS_REGION": self._region(self.endpoint),
                # These two make another warm driver for another store, and for another role. The
                # store is not asked for roles, as it were with `AWS_ENDPOINT_URL`.
                "AWS_ENDPOINT_URL_S3": self.endpoint,
                ROLE: self.role,
            }
        )

    def within(self, variables: Mapping[str, str]) -> dict[str, str]:
        """A process's variables with those of this store instead of what was there.

        Credentials stay where the connection has none.
        """
        if self.connection is None:
            return dict(variables)
        replaced = _PLACE if self.access_key is None else (*_PLACE, *_CREDENTIALS)
        kept = {name: value for name, value in variables.items() if name not in replaced}
        return {**kept, **self.environment()}

    def for_spark(self) -> dict[str, str]:
        """Properties of Hadoop's S3A client; none is a secret."""
        endpoint = self._endpoint
        assumed = {
            "fs.s3a.aws.credentials.provider": _ASSUMED_ROLE,
            "fs.s3a.assumed.role.arn": self.role,
            "fs.s3a.assumed.role.session.name": _SESSION_NAME,
            "fs.s3a.assumed.role.credentials.provider": _WHO_ASSUMES,
        }
        return _given(
            {
                "fs.s3a.endpoint": endpoint,
                "fs.s3a.endpoint.region": self._region(endpoint),
                "fs.s3a.path.style.access": "true" if endpoint else None,
                **(assumed if self.role is not None else {}),
            }
        )

    @property
    def _endpoint(self) -> str | None:
        """The endpoint that counts: without a connection, a variable may name one."""
        return self.endpoint if self.connection else os.environ.get("AWS_ENDPOINT_URL")

    def _region(self, endpoint: str | None) -> str | None:
        return self.region or (DEFAULT_REGION if endpoint else None)


def _given(settings: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in settings.items() if value is not None}


def read_settings(connection: str, given: Connection) -> StoreSettings:
    """Check the parts of a connection.

    Args:
        given: Its login is the access key, its password the secret; its extra has keys of
            `ALLOWED`.

    Raises:
        ConnectionMissing: A part is missing, unknown, of the wrong form, or contradicts another.
    """
    extra, login, password = given.extra, given.login, given.password
    _check_extra(connection, extra)
    token, role = extra.get("aws_session_token"), extra.get("role_arn")
    if bool(login) != bool(password):
        missing, beside = ("password", "login") if login else ("login", "password")
        raise refused(connection, missing, "missing", f"required by the {beside}, or neither")
    if token and not login:
        raise refused(connection, "login", "missing", "required by aws_session_token")
    if role and login:
        allowed = "none beside role_arn, which is assumed with the environment's credentials"
        raise refused(connection, "login", "given", allowed)
    endpoint = extra.get("endpoint_url")
    return StoreSettings(
        connection=connection,
        access_key=login or None,
        secret_key=password or None,
        session_token=token,
        region=extra.get("region_name"),
        endpoint=endpoint.rstrip("/") if endpoint else None,
        role=role,
    )


def _check_extra(connection: str, extra: Mapping[str, Any]) -> None:
    refuse_others(connection, extra, ALLOWED)
    for name, value in extra.items():
        if not isinstance(value, str) or not value.strip():
            raise refused(connection, f"extra {name}", "no text, or empty", "a text")
        form, example = _FORMS.get(name, (None, ""))
        if form is not None and not form.fullmatch(value):
            raise refused(connection, f"extra {name}", "another form", example)
        if name.endswith("_url"):
            _check_url(connection, name, value)


def _check_url(connection: str, name: str, url: str) -> None:
    allowed = "http:// or https://, a host, and perhaps a port"
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        raise refused(connection, f"extra {name}", without_login(repr(url)), allowed)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise refused(connection, f"extra {name}", "a login, a query or a fragment", allowed)
    if parts.path not in ("", "/"):
        raise refused(connection, f"extra {name}", "a path", allowed)


def with_limits(options: Mapping[str, str], connection: str | None = None) -> dict[str, str]:
    """delta-rs' options that bound how long a store that is away is tried; given ones stay.

    Args:
        connection: Id of the Airflow connection, for messages.
    """
    named = {} if connection is None else {CONNECTION: connection}
    return {**LIMITS, **options, **named}


def for_obstore(options: Mapping[str, str]) -> dict[str, Any]:
    """The same store for obstore: arguments of `S3Store`, but for bucket and prefix."""
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
