"""Why an object store refuses: what is final, and what may pass.

    authentication   unknown key, wrong secret, expired token, no credentials at all
    authorization    the key lacks a right
    bucket           there is no such bucket
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
from tideline.model.addresses import is_in_object_store
from tideline.store.settings import CONNECTION

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
    "authentication": "correct login (the access key), password (its secret) and aws_session_token"
    " in the connection",
    "authorization": "grant the key the rights to list, read, write and delete below the address",
    "bucket": "correct the address in the stream file, or create the bucket",
    "region": "correct region_name in the connection",
    "endpoint": "correct endpoint_url in the connection",
    "certificate": "correct endpoint_url in the connection, or let this machine trust the"
    " authority of the certificate",
    "conditional_put": "two writers could both believe that they have committed; use a store, or a"
    " version of it, that honours If-None-Match",
}
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
}
"""S3's error codes that another try does not change, and those of others for the same."""
_CODE = re.compile(r"<Code>\s*(\w+)\s*</Code>")
_MESSAGE = re.compile(r"<Message>\s*([^<]*?)\s*</Message>")
_STATUS = re.compile(r"status(?: code)?:? (\d{3})\b")
_NO_CREDENTIALS = ("169.254.169.254", "IMDS", "no providers in chain", "no credentials found")
"""Signs that nothing was configured: the machine's own role is asked for last."""
_NO_REGION = "missing signing region"
_NOT_SENT = "error sending request"
_NOT_S3 = ("invalid list response", "Error parsing", "<html", "<!doctype html")
_REDIRECT = "redirect without LOCATION"
_COLOURS = re.compile(r"\x1b\[\d*m↳?")
_CONNECT_SECONDS = 5
_INTERNALS = re.compile(r"\nDebug source:|\n\s*0: ")
_LONGEST_TEXT = 300


def refusal(uri: str, options: Mapping[str, str], error: Exception) -> StoreRefused | None:
    """The refusal that an error of delta-rs or obstore stands for; None if it may pass."""
    if not is_in_object_store(uri):
        return None
    text = plain_text(error)
    code = _CODE.search(text)
    if code is not None:
        cause = _BY_CODE.get(code[1])
        message = _MESSAGE.search(text)
        said = f"{code[1]}: {unescape(message[1])}" if message and message[1] else code[1]
        return None if cause is None else refused(uri, options, cause, said)
    if any(sign in text for sign in _NO_CREDENTIALS):
        return refused(uri, options, "authentication", "there are no credentials for it")
    if _NO_REGION in text:
        return refused(uri, options, "authentication", "assuming a role needs AWS_REGION as well")
    status = _STATUS.search(text)
    if status is not None and status[1] in ("401", "403"):
        return refused(uri, options, "authorization", f"HTTP status {status[1]}")
    if any(sign in text.lower() for sign in map(str.lower, _NOT_S3)):
        return refused(uri, options, "endpoint", "what answers there is no S3 store")
    if _REDIRECT in text:
        return refused(uri, options, "region", "it redirects to another region")
    if _NOT_SENT in text:
        return _looked_at(uri, options)
    return None


def plain_text(error: Exception) -> str:
    """What delta-rs or obstore says, in one line, without colours and internals."""
    text = _INTERNALS.split(str(error), 1)[0]
    return " ".join(_COLOURS.sub(" ", text).split())


def refused(uri: str, options: Mapping[str, str], cause: Cause, said: str) -> StoreRefused:
    """The error that ends a run: it does not pass.

    Args:
        options: delta-rs options of the object store; secrets among them are never shown.
        said: What the store has said; without a secret.
    """
    bucket, endpoint = urlsplit(uri).netloc, endpoint_of(options)
    connection = options.get(CONNECTION)
    via = "" if connection is None else f"connection {connection}: "
    at = "" if endpoint is None else f" at {endpoint}"
    return StoreRefused(
        f"{via}the object store{at} refuses {uri}, bucket {bucket}: {cause}:"
        f" {' '.join(said.split())[:_LONGEST_TEXT]}; {_ADVICE[cause]}, then run again."
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
    endpoint = urlsplit(endpoint_of(options) or "")
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
            return refused(uri, options, "endpoint", f"the name {host} does not resolve")
    except ssl.SSLCertVerificationError as error:
        return refused(uri, options, "certificate", error.verify_message)
    except ssl.SSLError as error:
        return refused(uri, options, "endpoint", f"it does not speak TLS: {error.reason}")
    except OSError:
        pass  # nothing listens there now
    return None


def endpoint_of(options: Mapping[str, str]) -> str | None:
    """The store's URL; None means Amazon's own."""
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        if found := options.get(name) or os.environ.get(name):
            return found
    return None
