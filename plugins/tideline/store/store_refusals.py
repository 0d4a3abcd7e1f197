"""Why an object store refuses: what is final, and what may pass, in the words of three clouds.

    authentication   unknown key, wrong secret, expired token, no credentials at all
    authorization    the key lacks a right
    bucket           there is no such bucket, or Azure's container
    region           the bucket is in another region
    endpoint         its name does not resolve, or what answers there is no S3 store
    certificate      the endpoint's certificate does not verify
    conditional_put  it lets one writer overwrite what another one has just created

Final is what the store says by an error code, and what a look at the endpoint shows. Everything
else may pass. delta-rs and obstore give texts only, of the same Rust library.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
from collections.abc import Mapping
from html import unescape
from typing import Literal
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from tideline.errors import StoreRefused
from tideline.model.addresses import StoreKind, account_of, bucket_of, store_of
from tideline.model.wording import LONGEST_REASON
from tideline.secrecy import redacted_line
from tideline.store import azure
from tideline.store.store_settings import CONNECTION

Cause = Literal[
    "authentication",
    "authorization",
    "bucket",
    "region",
    "endpoint",
    "certificate",
    "conditional_put",
]
_ADVICE: dict[Cause, str] = {
    "authentication": "correct the connection's login, password and extra",
    "authorization": "grant the key the rights to list, read, write and delete below the address",
    "bucket": "correct the address in the stream file, or create the bucket",
    "region": "correct region_name in the connection",
    "endpoint": "correct endpoint_url in the connection",
    "certificate": "correct endpoint_url in the connection, or let this machine trust the"
    " authority of the certificate",
    "conditional_put": "two writers could both believe that they have committed; use a store, or a"
    " version of it, that honours If-None-Match",
}
_OF_STORE: dict[tuple[StoreKind, Cause], str] = {
    ("s3a", "authentication"): "correct login (the access key), password (its secret) and"
    " aws_session_token in the connection",
    ("azure", "authentication"): "correct the account's key, the SAS or the client's secret in the"
    " connection; without one, give this machine an identity",
    ("azure", "authorization"): "grant the SAS or the identity the rights to list, read, write and"
    " delete (for an identity: Storage Blob Data Contributor), and let this machine through the"
    " account's firewall",
    ("azure", "bucket"): "correct the container in the stream file, or create it",
    ("azure", "endpoint"): "correct the account in the address, or the connection's host",
    ("google", "authentication"): "correct the key in the connection; without one, give this"
    " machine an identity",
    ("google", "authorization"): "grant the account the rights to list, read, write and delete"
    " (Storage Object User)",
}
"""Where a store's own words say more."""
_BY_CODE: dict[str, Cause] = {
    "InvalidAccessKeyId": "authentication",
    "SignatureDoesNotMatch": "authentication",
    "ExpiredToken": "authentication",
    "ExpiredTokenException": "authentication",
    "InvalidToken": "authentication",
    "InvalidClientTokenId": "authentication",
    "RequestTimeTooSkewed": "authentication",
    "AccessDenied": "authorization",
    "AllAccessDisabled": "authorization",
    "NoSuchBucket": "bucket",
    "InvalidBucketName": "bucket",
    "AuthorizationHeaderMalformed": "region",
    "IllegalLocationConstraintException": "region",
    "PermanentRedirect": "region",
    "XAdminUserNotFound": "authentication",
    "AuthenticationFailed": "authentication",
    "InvalidAuthenticationInfo": "authentication",
    "NoAuthenticationInformation": "authentication",
    "AuthenticationRequired": "authentication",
    "AccountIsDisabled": "authorization",
    "AuthorizationFailure": "authorization",
    "AuthorizationPermissionMismatch": "authorization",
    "AuthorizationProtocolMismatch": "authorization",
    "AuthorizationResourceTypeMismatch": "authorization",
    "AuthorizationServiceMismatch": "authorization",
    "AuthorizationSourceIPMismatch": "authorization",
    "InsufficientAccountPermissions": "authorization",
    "UserProjectAccountProblem": "authorization",
    "ContainerNotFound": "bucket",
    "FilesystemNotFound": "bucket",
    "InvalidResourceName": "bucket",
}
"""Error codes of S3, of Azure ("Common REST API error codes", "Blob service error codes") and of
Google ("HTTP status and error codes for XML") that another try does not change."""
_NO_LOGIN = "failed to authenticate"
"""Azure's words, also with a code that means a right elsewhere."""
_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>")
_MESSAGE = re.compile(r"<Message>\s*([^<]*?)\s*</Message>")
_STATUS = re.compile(r"status(?: code)?:? (\d{3})\b")
_BY_WORDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        # The machine's own identity is asked for last: nothing was configured.
        (
            *("169.254.169.254", "metadata.google.internal", "IMDS"),
            *("no providers in chain", "no credentials found"),
        ),
        "there are no credentials for it",
    ),
    (
        ("Invalid Access Key", "service account", "Unable to decode", "missing field `"),
        "what is configured is no key",
    ),
    (
        ("invalid_grant", "invalid_client", "unauthorized_client"),
        "who gives out tokens knows no such login",
    ),
    (("missing signing region",), "assuming a role needs AWS_REGION as well"),
)
"""Signs that another login is needed, where no code says so, and what is said of them."""
_TOKEN = "token request"  # noqa: S105  (words of object_store's)
_REFUSING = ("400", "401", "403")
_NOT_SENT = "error sending request"
_NOT_S3 = ("invalid list response", "Error parsing", "<html", "<!doctype html")
_REDIRECT = "redirect without LOCATION"
_COLOURS = re.compile(r"\x1b\[\d*m↳?")
_CONNECT_SECONDS = 5
_INTERNALS = re.compile(r"\nDebug source:|\n\s*0: ")
_LONGEST_TEXT = 300


def refusal(uri: str, options: Mapping[str, str], error: Exception) -> StoreRefused | None:
    """The refusal that an error of delta-rs or obstore stands for; None if it may pass."""
    if store_of(uri) is None:
        return None
    text = plain_text(error)
    code = _CODE.search(text)
    if code is not None:
        cause = "authentication" if _NO_LOGIN in text else _BY_CODE.get(code[1])
        message = _MESSAGE.search(text)
        reason = f"{code[1]}: {unescape(message[1])}" if message and message[1] else code[1]
        return None if cause is None else store_refused(uri, options, cause, reason)
    status = found[1] if (found := _STATUS.search(text)) else ""
    if status == "429" or status >= "500":
        return None  # who gives out tokens, too, may be busy for a moment
    return _by_words(uri, options, text, status)


def _by_words(uri: str, options: Mapping[str, str], text: str, status: str) -> StoreRefused | None:
    """The same of an answer without a code; `status` is HTTP's, or empty."""
    for signs, reason in _BY_WORDS:
        if any(sign in text for sign in signs):
            return store_refused(uri, options, "authentication", reason)
    if _TOKEN in text and status in _REFUSING:
        return store_refused(uri, options, "authentication", f"no token is given out: {status}")
    if status in ("401", "403"):
        return store_refused(uri, options, "authorization", f"HTTP status {status}")
    if any(sign in text.lower() for sign in map(str.lower, _NOT_S3)):
        return store_refused(uri, options, "endpoint", "what answers there is no such store")
    if _REDIRECT in text:
        return store_refused(uri, options, "region", "it redirects to another region")
    if _NOT_SENT in text:
        return _looked_at(uri, options)
    return None


def plain_text(error: Exception) -> str:
    """What delta-rs or obstore says, in one line, without colours and internals."""
    text = _INTERNALS.split(str(error), 1)[0]
    return redacted_line(_COLOURS.sub(" ", text), most=LONGEST_REASON)


def store_refused(uri: str, options: Mapping[str, str], cause: Cause, text: str) -> StoreRefused:
    """The error that ends a run: it does not pass.

    Args:
        options: delta-rs options of the object store; secrets among them are never shown.
        text: What the store has said; without a secret.
    """
    bucket, endpoint = bucket_of(uri)[0], endpoint_of(uri, options)
    kind = store_of(uri)
    assert kind is not None
    advice = _OF_STORE.get((kind, cause), _ADVICE[cause])
    connection = options.get(CONNECTION)
    via = "" if connection is None else f"connection {connection}: "
    at = "" if endpoint is None else f" at {endpoint}"
    return StoreRefused(
        f"{via}the object store{at} refuses {uri}, bucket {bucket}: {cause}:"
        f" {redacted_line(text, most=_LONGEST_TEXT)}; {advice}, then run again."
        " Nothing has moved",
        connection=connection,
        endpoint=endpoint,
        bucket=bucket,
        uri=uri,
        cause=cause,
    )


def _looked_at(uri: str, options: Mapping[str, str]) -> StoreRefused | None:
    """What keeps requests from the endpoint, as a connection of our own shows it.

    The library says no more than that it could not send them.
    """
    endpoint = urlsplit(endpoint_of(uri, options) or "")
    host, is_https = endpoint.hostname, endpoint.scheme == "https"
    if host is None or (endpoint.scheme in getproxies() and not proxy_bypass(host)):
        return None
    port = endpoint.port or (443 if is_https else 80)
    try:
        with socket.create_connection((host, port), _CONNECT_SECONDS) as link:
            if is_https:
                ssl.create_default_context().wrap_socket(link, server_hostname=host).close()
    except socket.gaierror as error:
        if error.errno == socket.EAI_NONAME:
            return store_refused(uri, options, "endpoint", f"the name {host} does not resolve")
    except ssl.SSLCertVerificationError as error:
        return store_refused(uri, options, "certificate", error.verify_message)
    except ssl.SSLError as error:
        return store_refused(uri, options, "endpoint", f"it does not speak TLS: {error.reason}")
    except OSError:
        pass  # nothing listens there now
    return None


def endpoint_of(uri: str, options: Mapping[str, str]) -> str | None:
    """The store's URL; None means Amazon's or Google's own."""
    kind = store_of(uri)
    if kind == "google":
        return None
    if kind == "azure":
        found = options.get(azure.ENDPOINT) or os.environ.get(azure.ENDPOINT)
        return found or f"https://{account_of(uri)}.blob.core.windows.net"
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if found := options.get(name) or os.environ.get(name):
            return found
    return None
