"""What an error of the HTTP client, or a status, means: which of Tideline's errors it is."""

from __future__ import annotations

import ssl
from typing import Literal

import httpx

from tideline.errors import RegistryAway, RegistryMisused, RegistryRefused, TidelineError
from tideline.registry_io.connecting import RegistrySettings

Cause = Literal["authentication", "authorization", "certificate", "protocol"]
_ADVICE: dict[Cause, str] = {
    "authentication": "correct login and password, or the token, in the connection",
    "authorization": "grant the connection's user the right to read subjects and schemas",
    "certificate": "correct ca, certificate or key in the connection's extra, and use the host name"
    " of the registry's certificate",
    "protocol": "correct schema (http or https) or port in the connection",
}
_PASSING = (408, 425, 429)
_OTHER_PROTOCOL = (
    "HTTP_REQUEST",
    "RECORD_LAYER_FAILURE",
    "TLSV1_ALERT_PROTOCOL_VERSION",
    "UNSUPPORTED_PROTOCOL",
    "WRONG_VERSION_NUMBER",
)
"""OpenSSL's reasons for a peer without TLS, or with another version of it."""
_LONGEST_TEXT = 500


def by_status(settings: RegistrySettings, asked: str, status: int, said: str) -> TidelineError:
    """The error that an answer other than 200 stands for.

    Args:
        settings: Whose answer it is.
        asked: The path.
        status: HTTP's.
        said: The body, or as much as says why.
    """
    what = f"{asked} was answered {status}: {_bounded(settings, said)}"
    if status in _PASSING or status >= 500:
        return away(settings, what)
    if status == 401:
        return refused(settings, "authentication", what)
    if status == 403:
        return refused(settings, "authorization", what)
    return misused(settings, what)


def by_error(settings: RegistrySettings, asked: str, error: httpx.HTTPError) -> TidelineError:
    """The error that a failed exchange stands for.

    A certificate that does not verify, a TLS alert, and an answer that is not HTTP are final.
    Everything else may pass: a connection that is cut says nothing, since the registry may be
    restarting.
    """
    what = f"{asked}: {type(error).__name__}: {_bounded(settings, str(error))}"
    if isinstance(error, httpx.RemoteProtocolError) and "illegal status line" in str(error):
        return refused(settings, "protocol", what)
    beneath: BaseException | None = error
    while beneath is not None and not isinstance(beneath, ssl.SSLError):
        beneath = beneath.__cause__ or beneath.__context__
    reason = (beneath.reason or "") if beneath is not None else ""
    if reason in _OTHER_PROTOCOL:
        return refused(settings, "protocol", what)
    is_alert = "_ALERT_" in reason and "INTERNAL_ERROR" not in reason  # about this connection only
    if is_alert or isinstance(beneath, ssl.SSLCertVerificationError):
        return refused(settings, "certificate", what)
    return away(settings, what)


def away(settings: RegistrySettings, what: str) -> RegistryAway:
    """It may pass."""
    return RegistryAway(
        f"{_where(settings)}: {what}; what has landed stays, try again when it is back",
        connection=settings.connection,
        url=settings.url,
    )


def refused(settings: RegistrySettings, cause: Cause, what: str) -> RegistryRefused:
    """It does not pass, and the connection has to be corrected."""
    return RegistryRefused(
        f"{_where(settings)} refuses it: {cause}: {what}; {_ADVICE[cause]}, then run again."
        " What has landed stays",
        connection=settings.connection,
        url=settings.url,
        cause=cause,
    )


def misused(settings: RegistrySettings, what: str, **facts: object) -> RegistryMisused:
    """The address is another one's, or the registry lacks something."""
    return RegistryMisused(
        f"{_where(settings)}: {what}. Correct the connection's host, port and path, or the stream"
        " file; what has landed stays",
        connection=settings.connection,
        url=settings.url,
        **facts,
    )


def _where(settings: RegistrySettings) -> str:
    return f"connection {settings.connection}: the schema registry at {settings.url}"


def _bounded(settings: RegistrySettings, text: str) -> str:
    return settings.without_secrets(" ".join(text.split()))[:_LONGEST_TEXT]
