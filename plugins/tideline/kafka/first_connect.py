"""kafka-python's first connect, ended as soon as brokers refuse; and which errors are refusals.

By itself the client goes on trying until its time is up, and then says "Unable to bootstrap" only.
"""

from __future__ import annotations

import os
import re
import ssl
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kafka import KafkaAdminClient
from kafka import errors as kafka_errors
from kafka.net.compat import KafkaNetClient
from kafka.net.connection import KafkaConnection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector

from tideline.kafka.broker_refusals import BrokerRefusal, Cause
from tideline.kafka.tokens import TokenEndpointAway, TokenRefused
from tideline.secrecy import clamp_kafka_logs

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
_NUMBER = re.compile(r"(\d+) E[A-Z]+")
_IN_PLAIN = {"DNS Resolution failure": "the name does not resolve"}
_CUT = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError)


def connected(failed: Callable[[str], None], **configs: Any) -> KafkaAdminClient:
    """A client that has found the cluster.

    Args:
        failed: Is told why a broker could not be reached.
        configs: Keyword arguments of `KafkaAdminClient`.
    """
    clamp_kafka_logs()
    made: list[KafkaNetClient] = []
    reasons: list[str] = []

    def heard(why: str) -> None:
        reasons.append(why)
        failed(why)

    def client(**settings: Any) -> KafkaNetClient:
        net = NetworkSelector(**settings)
        made.append(KafkaNetClient(net, _Connections(net, heard, **settings)))
        return made[0]

    try:
        return KafkaAdminClient(**configs, kafka_client=client)
    except Exception as error:
        for unfinished in made:  # its constructor has started a thread
            unfinished.close()
            unfinished._net.stop()
        if isinstance(error, kafka_errors.KafkaTimeoutError) and reasons:
            raise Unreached(reasons[-1]) from error  # "Unable to bootstrap" says less
        raise


class Unreached(kafka_errors.KafkaConnectionError):  # type: ignore[misc]
    """A broker cannot be reached: which one, and why, in the system's words."""

    def __str__(self) -> str:
        return str(self.args[0])


class CutAtConnect(Unreached):
    """A broker ended the first connection before it had answered.

    Args:
        text: What was seen.
        host: The broker that did, as `bootstrap.servers` names it.
    """

    def __init__(self, text: str, host: str, port: int) -> None:
        super().__init__(f"{host}:{port}: {text}")
        self.host = host
        self.port = port


class _Connections(KafkaConnectionManager):  # type: ignore[misc]
    """Remembers which server of `bootstrap.servers` has refused, and does not ask it again."""

    def __init__(self, net: NetworkSelector, failed: Callable[[str], None], **configs: Any) -> None:
        super().__init__(net, **configs)
        self._failed = failed
        self._refused: dict[str, BaseException] = {}

    def get_connection(self, node_id: Any, *args: Any, **options: Any) -> KafkaConnection:
        if node_id in self._refused:
            raise self._refused[node_id]
        connection = super().get_connection(node_id, *args, **options)
        # A broker that is lost later may come back; and a new client asks all servers again.
        if self.cluster.is_bootstrap(node_id):
            connection.close_future.add_errback(partial(self._remember, node_id))
        return connection

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        try:
            transport = await super()._build_transport(node, timeout_at=timeout_at)
        except kafka_errors.KafkaConnectionError as error:
            # Brokers may advertise other names than `bootstrap.servers` does: say which it was.
            reached = Unreached(f"{node.host}:{node.port}: {_reason(error)}")
            self._failed(str(reached))
            raise reached from error
        receive = transport._sock_recv

        def receive_before_the_end() -> tuple[bytes, Exception | None]:
            """Brokers answer a wrong login and close; the client would drop such an answer."""
            data, error = receive()
            return data, None if data else error

        transport._sock_recv = receive_before_the_end
        return transport

    def _remember(self, node_id: str, error: BaseException) -> None:
        if refusal_of(error) is not None:
            self._refused[node_id] = error
        elif is_cut_off(error):
            node = self.cluster.broker_metadata(node_id)
            cut = CutAtConnect(_reason(error), node.host, node.port)
            cut.__cause__ = error
            self._refused[node_id] = cut


def refusal_of(error: BaseException) -> BrokerRefusal | None:
    """The refusal that an error of kafka-python stands for; None if it may pass.

    The client wraps errors of TLS into connection errors, so what lies beneath is looked at too.
    """
    for beneath in _beneath(error):
        if isinstance(beneath, TokenRefused):
            return beneath.refusal
        for kind, cause in _BY_CLASS:
            if isinstance(beneath, kind):
                return BrokerRefusal(cause, message_of(beneath))
        if isinstance(beneath, ssl.SSLError) and (found := _of_tls(beneath)) is not None:
            return BrokerRefusal(found, message_of(beneath))
    return None


def is_cut_off(error: BaseException) -> bool:
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


def message_of(error: BaseException) -> str:
    """An error's text, with its class where the text does not name it."""
    text, name = str(error), type(error).__name__
    is_plain = name in text or isinstance(error, (ssl.SSLError, Unreached))
    return text if is_plain else f"{name}: {text}"


def _reason(error: BaseException) -> str:
    """Why there is no connection, without kafka-python's classes and numbers."""
    text = str(error.args[0] if error.args else error)
    number = _NUMBER.fullmatch(text)
    text = os.strerror(int(number[1])) if number else _IN_PLAIN.get(text, text)
    return text[:1].lower() + text[1:]


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
