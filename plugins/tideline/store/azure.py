"""The checked settings of Azure's Data Lake Storage, from a connection of type `wasb` or `adls`.

Their parts mean what they mean to Airflow's Azure provider. A connection has one form: an account
key, a SAS, a service principal, or none of them, which is the machine's identity. Any other part is
refused by name.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from tideline.connections import (
    Connection,
    given_only,
    refuse_on_cluster,
    refuse_others,
    refuse_variables,
    refused,
)
from tideline.model.addresses import StoreKind, account_of
from tideline.secrecy import without_login

EXAMPLE = '{"conn_type": "wasb", "login": "ACCOUNT", "password": "ACCOUNT_KEY"}'
_KEYS = ("shared_access_key", "account_key")
_IDENTITY = ("managed_identity_client_id", "workload_identity_tenant_id")
ALLOWED = (*_KEYS, "sas_token", "tenant_id", "account_url", *_IDENTITY)
KEY, SAS = "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"
CLIENT, SECRET, TENANT = "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET", "AZURE_TENANT_ID"
TOKEN_FILE, ENDPOINT = "AZURE_FEDERATED_TOKEN_FILE", "AZURE_STORAGE_ENDPOINT"
"""Variables, and options of delta-rs in capitals."""
_BEFORE = ("AZURE_STORAGE_TOKEN", "AZURE_STORAGE_USE_EMULATOR", "AZURE_SKIP_SIGNATURE")
_ORDER = (KEY, TOKEN_FILE, SECRET, SAS)
"""Of several, object_store takes the first (`azure/builder.rs`, `build`)."""
_AUTH = "fs.azure.account.auth.type"
_PROVIDER = "fs.azure.account.oauth.provider.type"
_OAUTH = "fs.azure.account.oauth2"
_PROVIDERS = "org.apache.hadoop.fs.azurebfs.oauth2"
_LOGIN = "https://login.microsoftonline.com"
_BOUNDED = {
    "fs.azure.io.retry.max.retries": "3",
    "fs.azure.io.retry.min.backoff.interval": "200",
    "fs.azure.io.retry.max.backoff.interval": "2000",
    "fs.azure.io.retry.backoff.interval": "200",
}
"""Milliseconds. By default a store that is away is tried thirty times, up to 25 seconds apart."""
_ID = re.compile(r"[0-9a-zA-Z.-]{1,100}")


@dataclass(frozen=True, slots=True)
class AzureSettings:
    """How the accounts of one stream are reached: by the first of these that is given.

    Args:
        connection: As `StoreSettings` has it.
        key: The account's key.
        sas: A shared access signature, without its `?`.
        secret: A service principal's; client and tenant belong to it.
        client: Id of the service principal, or of one of the machine's identities.
        tenant: Of the service principal, or of the workload's identity.
        token_file: Of the workload's identity; with none of all these it is the machine's.
        endpoint: URL of an emulator, its path the account's name.
    """

    kind: ClassVar[StoreKind] = "azure"
    connection: str | None = None
    key: str | None = field(default=None, repr=False)
    sas: str | None = field(default=None, repr=False)
    secret: str | None = field(default=None, repr=False)
    client: str | None = None
    tenant: str | None = None
    token_file: str | None = None
    endpoint: str | None = None

    def for_delta(self) -> dict[str, str]:
        """As `StoreSettings` has it."""
        given = {} if self.connection is None else self._named()
        is_plain = (self.endpoint or "").startswith("http:")
        return given_only({**given, "AZURE_ALLOW_HTTP": "true" if is_plain else None})

    def environment(self) -> dict[str, str]:
        """Variables that hold the secrets; properties of Spark's name them."""
        return given_only(self._named())

    def _named(self) -> dict[str, str | None]:
        return {
            KEY: self.key,
            SAS: self.sas,
            SECRET: self.secret,
            CLIENT: self.client,
            TENANT: self.tenant,
            TOKEN_FILE: self.token_file,
            ENDPOINT: self.endpoint,
        }

    def within(self, variables: Mapping[str, str]) -> dict[str, str]:
        """As `StoreSettings` has it."""
        if self.connection is None:
            return dict(variables)
        kept = {name: value for name, value in variables.items() if not name.startswith("AZURE_")}
        return {**kept, **self.environment()}

    def for_spark(self) -> dict[str, str]:
        """Properties of Hadoop's ABFS client; a secret stands there as a variable's name."""
        return {**_BOUNDED, **self._auth(), **self._emulator()}

    def _auth(self) -> dict[str, str]:
        if self.key is not None:
            return {_AUTH: "SharedKey", "fs.azure.account.key": f"${{env.{KEY}}}"}
        if self.secret is not None:
            return {
                _AUTH: "OAuth",
                _PROVIDER: f"{_PROVIDERS}.ClientCredsTokenProvider",
                f"{_OAUTH}.client.endpoint": f"{_LOGIN}/{self.tenant}/oauth2/token",
                f"{_OAUTH}.client.id": self.client or "",
                f"{_OAUTH}.client.secret": f"${{env.{SECRET}}}",
            }
        if self.sas is not None:
            return {_AUTH: "SAS", "fs.azure.sas.fixed.token": f"${{env.{SAS}}}"}
        machine = {f"{_OAUTH}.client.id": self.client, f"{_OAUTH}.msi.tenant": self.tenant}
        name = "MsiTokenProvider"
        if self.token_file is not None:
            name, machine[f"{_OAUTH}.token.file"] = "WorkloadIdentityTokenProvider", self.token_file
        return {_AUTH: "OAuth", _PROVIDER: f"{_PROVIDERS}.{name}", **given_only(machine)}

    def _emulator(self) -> dict[str, str]:
        if self.endpoint is None:
            return {}
        url = urlsplit(self.endpoint)
        plain = {
            "fs.azure.always.use.https": "false",
            "fs.azure.networking.library": "JDK_HTTP_URL_CONNECTION",
        }
        return {
            "fs.azure.abfs.endpoint": url.netloc,
            "fs.azure.account.hns.enabled": "false",
            "fs.azure.fns.account.service.type": "BLOB",
            **(plain if url.scheme == "http" else {}),
        }

    def refuse_cluster(self) -> None:
        """As `StoreSettings` has it: executors read their own machine's variables.

        Raises:
            ConnectionMissing: There is a key, a SAS or a client's secret.
        """
        if self.key or self.sas or self.secret:
            refuse_on_cluster(
                self.connection,
                "an account key, a SAS or a client's secret",
                "the machines' identity, which is a connection without secrets",
            )


def from_environment() -> AzureSettings:
    """What delta-rs finds in this process's variables, so that Spark gets the same."""
    found = {name: os.environ.get(name) or None for name in (*_ORDER, CLIENT, TENANT, ENDPOINT)}
    form = next((name for name in _ORDER if found[name] is not None), None)
    return AzureSettings(
        key=found[KEY] if form == KEY else None,
        sas=_without_mark(found[SAS]) if form == SAS else None,
        secret=found[SECRET] if form == SECRET else None,
        client=found[CLIENT],
        tenant=found[TENANT],
        token_file=found[TOKEN_FILE] if form == TOKEN_FILE else None,
        endpoint=found[ENDPOINT],
    )


def _without_mark(sas: str | None) -> str | None:
    return sas and sas.removeprefix("?")


def read_settings(connection: str, given: Connection, uri: str) -> AzureSettings:
    """Check the parts of a connection.

    Args:
        given: Of type `wasb` the login is the account, with `tenant_id` the client; of type `adls`
            the host is the account, and the login the client. Its extra has keys of `ALLOWED`.
        uri: An address in the store: key and SAS have to be of its account.

    Raises:
        ConnectionMissing: A part is missing, unknown, of the wrong form, or contradicts another, or
            a variable of this process would be taken beside it.
    """
    extra = {name: value for name, value in given.extra.items() if value not in (None, "")}
    refuse_others(connection, extra, ALLOWED)
    for name, value in extra.items():
        if not isinstance(value, str):
            raise refused(connection, f"extra {name}", "no text", "a text")
    if given.conn_type == "adls" and given.host:
        _check_account(connection, given, uri)
    tenant = extra.get("tenant_id")
    endpoint = _endpoint(connection, given, extra, uri)
    secrets = {
        "password": given.password or None,
        **{f"extra {name}": extra.get(name) for name in (*_KEYS, "sas_token")},
    }
    forms = [name for name, value in secrets.items() if value]
    if len(forms) > 1:
        raise refused(connection, forms[1], "given", f"none beside {forms[0]}")
    if forms or tenant is not None:
        others = [name for name in _IDENTITY if name in extra]
        if others:
            allowed = "only for the machine's identity, which has neither key nor SAS"
            raise refused(connection, f"extra {others[0]}", "given", allowed)
    if tenant is not None:
        found = _principal(connection, given, tenant, forms, endpoint)
    elif forms:
        _check_account(connection, given, uri)
        secret = secrets[forms[0]] or ""
        if forms[0] == "extra sas_token":
            sas = secret.strip().strip("'\"").removeprefix("?")
            _check_sas(connection, forms[0], sas)
            found = AzureSettings(connection, sas=sas, endpoint=endpoint)
        else:
            _check_form(connection, forms[0], _is_base64(secret), "an account key, in base64")
            found = AzureSettings(connection, key=secret, endpoint=endpoint)
    else:
        found = _identity(connection, extra, endpoint)
    given_here = found.environment()
    form = next((name for name in _ORDER if name in given_here), None)
    earlier = _ORDER if form is None else _ORDER[: _ORDER.index(form)]
    refuse_variables(connection, [n for n in (*_BEFORE, *earlier, ENDPOINT) if n not in given_here])
    return found


def _principal(
    connection: str, given: Connection, tenant: str, forms: list[str], endpoint: str | None
) -> AzureSettings:
    for part, value in (("login", given.login), ("extra tenant_id", tenant)):
        if not value:
            raise refused(connection, part, "missing", "the client's id, beside tenant_id")
        _check_form(connection, part, bool(_ID.fullmatch(value)), "an id")
    if forms != ["password"]:
        missing = forms[0] if forms else "password"
        allowed = "the client's secret as the password, beside tenant_id"
        raise refused(connection, missing, "given" if forms else "missing", allowed)
    return AzureSettings(
        connection, secret=given.password, client=given.login, tenant=tenant, endpoint=endpoint
    )


def _identity(connection: str, extra: Mapping[str, Any], endpoint: str | None) -> AzureSettings:
    """Of the workload, where a token's file is named, as in Kubernetes; else of the machine."""
    for name in _IDENTITY:
        _check_form(connection, f"extra {name}", _ID.fullmatch(extra.get(name, "none")), "an id")
    client, tenant = map(extra.get, _IDENTITY)
    token_file = os.environ.get(TOKEN_FILE) or None
    if tenant is not None and token_file is None:
        raise refused(
            connection,
            "extra workload_identity_tenant_id",
            "given",
            f"only where {TOKEN_FILE} names the workload's token",
        )
    client = client or os.environ.get(CLIENT) or None  # delta-rs would find it there
    if token_file is not None:
        tenant = tenant or os.environ.get(TENANT)
    return AzureSettings(
        connection, client=client, tenant=tenant, token_file=token_file, endpoint=endpoint
    )


def _endpoint(connection: str, given: Connection, extra: Mapping[str, Any], uri: str) -> str | None:
    """URL of an emulator; None for Azure's own, which the address names."""
    url = extra.get("account_url") or (given.host if given.conn_type == "wasb" else None)
    if not url:
        return None
    part = "extra account_url" if extra.get("account_url") else "host"
    account = account_of(uri)
    allowed = f"https://{account}.blob.core.windows.net, or an emulator's URL as in"
    allowed += f" http://azurite:10000/{account}"
    try:
        parts = urlsplit(url if "://" in url else f"https://{url}")
        port = parts.port
    except ValueError:
        raise refused(connection, part, "no URL", allowed) from None
    if parts.username or parts.password or parts.query or parts.fragment:
        raise refused(connection, part, "a login, a query or a fragment", allowed)
    own = tuple(f"{account}.{kind}.core.windows.net" for kind in ("blob", "dfs"))
    if parts.hostname in own and parts.scheme == "https" and not parts.path.strip("/"):
        return None
    if port is None or parts.path.strip("/") != account:
        raise refused(connection, part, without_login(repr(url)), allowed)
    return f"{parts.scheme}://{parts.netloc}/{account}"


def _check_account(connection: str, given: Connection, uri: str) -> None:
    part, named = ("login", given.login) if given.conn_type == "wasb" else ("host", given.host)
    account = account_of(uri)
    if named != account:
        actual = "missing" if not named else without_login(repr(named))
        raise refused(connection, part, actual, f"{account}, the account of {uri}")


def _check_form(connection: str, part: str, is_right: object, allowed: str) -> None:
    if not is_right:
        raise refused(connection, part, "another form", allowed)


def _check_sas(connection: str, part: str, sas: str) -> None:
    """Its form, and what it says of itself; never its text in a message."""
    allowed = "a shared access signature: the part of its URL behind the '?', as in sv=...&sig=..."
    if "?" in sas or "://" in sas:
        raise refused(connection, part, "a whole URL", allowed)
    fields = dict(parse_qsl(sas))
    _check_form(connection, part, fields.get("sig") and not re.search(r"\s", sas), allowed)
    if (rights := fields.get("sp")) is not None and not {*"rwl"} <= {*rights}:
        allowed = "one that may read, write, delete and list (sp=racwdl)"
        raise refused(connection, part, f"it may do {rights} only", allowed)
    end = fields.get("se", "")
    try:
        at = datetime.fromisoformat(end)
    except ValueError:  # none, where a stored access policy has it
        return
    if (at if at.tzinfo else at.replace(tzinfo=UTC)) < datetime.now(UTC):
        raise refused(
            connection, part, f"it has expired at {end}", "one that is valid: make a new one"
        )


def _is_base64(text: str) -> bool:
    try:
        return bool(base64.b64decode(text, validate=True))
    except ValueError:
        return False
