"""The checked settings of a store that speaks S3, from an Airflow connection of type `aws`.

Login, password and the keys below mean what they mean to Airflow's Amazon provider. Any other key
is refused: with it, a connection would seem to ask for what nobody does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar
from urllib.parse import urlsplit

from tideline.connections import Connection, given_only, refuse_others, refused
from tideline.model.addresses import StoreKind
from tideline.secrecy import without_login

ROLE = "AWS_IAM_ROLE_ARN"
"""A role that delta-rs assumes; obstore does so by way of boto3 only, which is no part of it."""
EXAMPLE = (
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


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How a store that speaks S3 is reached.

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

    kind: ClassVar[StoreKind] = "s3a"
    connection: str | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    region: str | None = None
    endpoint: str | None = None
    role: str | None = None

    def for_delta(self) -> dict[str, str]:
        """As `StoreSettings` has it, and those below."""
        return given_only(
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
        return given_only(
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
        return given_only(
            {
                "fs.s3a.endpoint": endpoint,
                "fs.s3a.endpoint.region": self._region(endpoint),
                "fs.s3a.path.style.access": "true" if endpoint else None,
                **(assumed if self.role is not None else {}),
            }
        )

    def refuse_cluster(self) -> None:
        """Nothing: Spark hands the variables to its executors."""

    @property
    def _endpoint(self) -> str | None:
        """The endpoint that counts: without a connection, a variable may name one."""
        return self.endpoint if self.connection else os.environ.get("AWS_ENDPOINT_URL")

    def _region(self, endpoint: str | None) -> str | None:
        return self.region or (DEFAULT_REGION if endpoint else None)


def read_settings(connection: str, given: Connection, uri: str = "") -> S3Settings:
    """Check the parts of a connection.

    Args:
        given: Its login is the access key, its password the secret; its extra has keys of
            `ALLOWED`.
        uri: An address in the store; S3's connections are not about a bucket.

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
    return S3Settings(
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
