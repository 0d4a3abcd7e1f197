"""Which errors of kafka-python are refusals, and which may pass."""

from __future__ import annotations

import ssl
from collections.abc import Iterator

from kafka import errors as kafka_errors

from tideline.kafka_io.refusals import Cause, Refusal
from tideline.kafka_io.tokens import TokenEndpointAway, TokenRefused

_BY_CLASS: tuple[tuple[type[Exception], Cause], ...] = (
    (kafka_errors.SaslAuthenticationFailedError, "authentication"),
    (kafka_errors.UnsupportedSaslMechanismError, "authentication"),
    (kafka_errors.IllegalSaslStateError, "protocol"),  # the listener does without a login
    (kafka_errors.AuthorizationError, "authorization"),
    (kafka_errors.UnsupportedVersionError, "protocol"),
    (kafka_errors.KafkaConfigurationError, "protocol"),
    (ssl.SSLCertVerificationError, "certificate"),
)
_PASSING_ALERTS = ("INTERNAL_ERROR", "USER_CANCELLED", "BAD_RECORD_MAC", "DECRYPT")
"""Alerts (RFC 8446, section 6) about the one connection, not about who or what connects."""
_OTHER_PROTOCOLS = ("WRONG_VERSION_NUMBER", "UNSUPPORTED_PROTOCOL", "NO_SHARED_CIPHER")
_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError)


def refusal_of(error: BaseException) -> Refusal | None:
    """The refusal that an error of kafka-python stands for; None if it may pass.

    The client wraps errors of TLS into connection errors, so what lies beneath is looked at too.
    """
    for beneath in _beneath(error):
        if isinstance(beneath, TokenRefused):
            return beneath.refusal
        for kind, cause in _BY_CLASS:
            if isinstance(beneath, kind):
                return Refusal(cause, said_by(beneath))
        if isinstance(beneath, ssl.SSLError) and (found := _of_tls(beneath)) is not None:
            return Refusal(found, said_by(beneath))
    return None


def is_cut(error: BaseException) -> bool:
    """Whether the other side ended the connection, or sent what is no answer of Kafka's."""
    return any(
        isinstance(beneath, (*_CUT, kafka_errors.InvalidReceiveError))
        or (
            isinstance(beneath, kafka_errors.KafkaConnectionError)
            and "socket disconnected" in str(beneath)
        )
        for beneath in _beneath(error)
    )


def silent_endpoint(error: BaseException) -> TokenEndpointAway | None:
    """The token endpoint's silence, if that is what an error of kafka-python comes from."""
    found = (e for e in _beneath(error) if isinstance(e, TokenEndpointAway))
    return next(found, None)


def said_by(error: BaseException) -> str:
    """An error's text, with its class where the text does not name it."""
    text, name = str(error), type(error).__name__
    return text if name in text or isinstance(error, ssl.SSLError) else f"{name}: {text}"


def _of_tls(error: ssl.SSLError) -> Cause | None:
    reason, library = getattr(error, "reason", None) or "", getattr(error, "library", None) or ""
    if "_ALERT_" in reason:
        if any(word in reason for word in _PASSING_ALERTS):
            return None
        certificate = any(word in reason for word in ("CERTIFICATE", "UNKNOWN_CA", "ACCESS"))
        return "certificate" if certificate else "protocol"
    if reason in _OTHER_PROTOCOLS:
        return "protocol"
    own = library in ("X509", "PEM") or "KEY_VALUES_MISMATCH" in reason or "PEM lib" in str(error)
    return "certificate" if own else None


def _beneath(error: BaseException | None) -> Iterator[BaseException]:
    """An error, what it wraps, and what it was raised from or while handling."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        found = waiting.pop(0)
        if found is None or id(found) in seen:
            continue
        seen.add(id(found))
        yield found
        waiting += [a for a in found.args if isinstance(a, BaseException)]
        waiting += [found.__cause__, found.__context__]
