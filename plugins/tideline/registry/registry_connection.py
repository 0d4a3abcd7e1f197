"""The checked settings of a schema registry, from an Airflow connection of type `http`.

Host, port and schema mean what they mean to Airflow's HTTP provider. Only the keys below are
allowed in the extra: with any other, a connection would seem to ask for what nobody does.
"""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

from tideline.connections import Connection, refuse_missing_files, refuse_others, refused, required
from tideline.secrecy import redacted_line

log = logging.getLogger("tideline")

_EXAMPLE = '{"conn_type": "http", "host": "https://registry:8081"}'
ALLOWED = ("token", "path", "ca", "certificate", "key", "verify")
_FILES = ("ca", "certificate", "key")
_SCHEMES = ("http", "https")
_TOKEN = set(map(chr, range(33, 127)))


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """How one registry is reached.

    Args:
        connection: Id of the Airflow connection, for messages.
        url: Where its API begins, without a slash at the end; no secret.
        login: User of basic auth; None for none.
        password: Their password.
        token: Bearer token instead.
        ca: File with the authorities to trust instead of the system's.
        certificate: File with the client's certificate, and its key unless `key` names that.
        key: File with the client's private key.
        verify: False trusts every certificate.
    """

    connection: str
    url: str
    login: str | None = None
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    ca: str | None = None
    certificate: str | None = None
    key: str | None = None
    verify: bool = True

    @property
    def tells_in_clear(self) -> bool:
        """Whether a login or a token is sent to it without TLS."""
        return self.url.startswith("http:") and bool(self.login or self.token)

    def without_secrets(self, text: str) -> str:
        """A text of somebody else's in a line, with our secrets taken out."""
        login = f"{self.login}:{self.password or ''}".encode() if self.login else b""
        return redacted_line(text, (b64encode(login).decode(), self.password, self.token))


def registry_settings(connection_id: str) -> RegistrySettings:
    """The checked settings of a schema registry's connection.

    Raises:
        ConnectionMissing: There is no such connection, its type is not http, or a part of it is
            not allowed.
    """
    found = required(connection_id, "http", key="registry.connection", example=_EXAMPLE)
    return read_settings(connection_id, found)


def read_settings(connection: str, given: Connection) -> RegistrySettings:
    """Check the parts of a connection.

    Args:
        given: Its host may be an address that begins with http:// or https://; its schema is one
            of these two, http unless the host says it; its extra has keys of `ALLOWED`.

    Raises:
        ConnectionMissing: A part is missing, unknown, of the wrong form, or contradicts another.
    """
    extra, login, password = given.extra, given.login, given.password
    _check_extra(connection, extra)
    url = _url(connection, given)
    _check_tls(connection, extra, url)
    token, verify = extra.get("token"), extra.get("verify", True)
    if login and token:
        raise refused(connection, "extra token", "given beside a login", "one of them")
    if password and not login:
        raise refused(connection, "login", "missing", "required by the password")
    files = {name: extra.get(name) for name in _FILES}
    login = login or None
    found = RegistrySettings(connection, url, login, password, token, verify=verify, **files)
    if found.tells_in_clear and not _is_here(url):
        log.warning("connection %s: its login goes to %s in clear; use https", connection, url)
    return found


def _is_here(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_extra(connection: str, extra: Mapping[str, Any]) -> None:
    refuse_others(connection, extra, ALLOWED)
    for name in ("token", *_FILES):
        value = extra.get(name)
        if value is not None and (not isinstance(value, str) or not value):
            raise refused(connection, f"extra {name}", "no text, or empty", "a text")
    if not set(extra.get("token") or "") <= _TOKEN:  # it would end up in an error of the client
        raise refused(connection, "extra token", "an unusual character", "printable ASCII")


def _check_tls(connection: str, extra: Mapping[str, Any], url: str) -> None:
    refuse_missing_files(connection, extra, _FILES)
    verify = extra.get("verify", True)
    if not isinstance(verify, bool):
        raise refused(connection, "extra verify", repr(verify), "true or false")
    if "key" in extra and "certificate" not in extra:
        raise refused(connection, "extra certificate", "missing", "required by the key")
    if "ca" in extra and not verify:
        raise refused(connection, "extra ca", "given beside verify: false", "one of them")
    for name in (*_FILES, "verify"):
        if name in extra and url.startswith("http:"):
            raise refused(connection, f"extra {name}", "given for http", "only with https")


def _url(connection: str, given: Connection) -> str:
    host, port, scheme = given.host or "", given.port, given.schema or None
    path = given.extra.get("path")
    try:
        parts = urlsplit(host if "://" in host else f"{scheme or 'http'}://{host}")
        named = parts.hostname
        ports = {p for p in (parts.port, port) if p}
    except ValueError:
        named, ports = None, set()
    # The host itself is not shown: somebody may have put a password into it.
    if not named or parts.query or parts.fragment or "@" in parts.netloc:
        raise refused(
            connection, "host", "not usable", "a name or an address, without a user or a query"
        )
    if parts.scheme not in _SCHEMES or scheme not in (None, parts.scheme):
        actual = "not one of them"
        if scheme in _SCHEMES and parts.scheme in _SCHEMES:
            actual = f"{scheme!r}, and the host says {parts.scheme!r}"
        raise refused(connection, "schema", actual, " or ".join(_SCHEMES))
    if len(ports) > 1:
        raise refused(connection, "port", f"{port}, and the host says another", "one of them")
    if path is not None and not (isinstance(path, str) and path.startswith("/")):
        raise refused(connection, "extra path", "no path", "a path that begins with /")
    own = parts.path.rstrip("/")
    if own and path is not None:
        raise refused(connection, "extra path", "given beside a path in the host", "one of them")
    below = own or quote(str(path or "").rstrip("/"), safe="/%:@")
    name = f"[{named}]" if ":" in named else named
    return f"{parts.scheme}://{name}{''.join(f':{p}' for p in ports)}{below}"
