"""What a broker's port speaks: TLS or not, with a login or without.

A broker that is spoken to in the wrong way closes the connection without a word, as it does when
it restarts. So ask it in the other way: only a proper answer counts.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

_TIMEOUT_SECONDS = 2.0
_API_VERSIONS, _SASL_HANDSHAKE = (18, 0), (17, 1)
"""Key and version (protocol guide, "Api Keys"); brokers answer both before a login."""
_CLIENT = b"\x00\x08tideline"
_MECHANISM = b"\x00\x05PLAIN"
_ILLEGAL_SASL_STATE = 34  # a listener without a login says so
_LONGEST_ANSWER = 1 << 20


@dataclass(frozen=True, slots=True)
class ListenerProbe:
    """What a listener has shown: whether it speaks TLS, and wants a login; None: it did not say."""

    tls: bool
    sasl: bool | None

    def contradicts(self, protocol: str) -> bool:
        """Whether a client with this `security.protocol` cannot be understood."""
        asked = (protocol.endswith("SSL"), protocol.startswith("SASL"))
        return self.tls != asked[0] or (self.sasl is not None and self.sasl != asked[1])

    def __str__(self) -> str:
        if self.sasl is None:
            return "TLS" if self.tls else "no TLS"
        return ("SASL_" if self.sasl else "") + ("SSL" if self.tls else "PLAINTEXT")


def probe_listener(host: str, port: int) -> ListenerProbe | None:
    """What a port speaks; None if it gives no proper answer in either way.

    Certificates are not checked, and nothing secret is sent.
    """
    for tls in (False, True):
        try:
            with _connected(host, port, tls=tls) as link:
                sasl = _wants_login(link)
        except ssl.SSLError as error:
            if not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
                return ListenerProbe(tls=True, sasl=None)  # an alert is an answer: TLS it is
        except (OSError, EOFError):
            continue
        else:
            return ListenerProbe(tls, sasl)
    return None


@contextmanager
def _connected(host: str, port: int, *, tls: bool) -> Iterator[socket.socket]:
    with socket.create_connection((host, port), _TIMEOUT_SECONDS) as plain:
        if not tls:
            yield plain
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain, server_hostname=host) as secured:
            yield secured


def _wants_login(link: socket.socket) -> bool:
    """Whether a listener that speaks Kafka wants a login.

    Raises:
        EOFError: It gave no answer of Kafka's.
    """
    _ask(link, _API_VERSIONS, b"")
    return _ask(link, _SASL_HANDSHAKE, _MECHANISM) != _ILLEGAL_SASL_STATE


def _ask(link: socket.socket, api: tuple[int, int], body: bytes) -> int:
    """Send one request; the answer's error code."""
    key, version = api
    frame = struct.pack(">hhi", key, version, key) + _CLIENT + body
    link.sendall(struct.pack(">i", len(frame)) + frame)
    (size,) = struct.unpack(">i", _receive(link, 4))
    if not 6 <= size <= _LONGEST_ANSWER:
        raise EOFError("no answer of Kafka's")
    correlation_id, code = struct.unpack_from(">ih", _receive(link, size))
    if correlation_id != key:
        raise EOFError("the answer to another request")
    return int(code)


def _receive(link: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = link.recv(size - len(received))
        if not part:
            raise EOFError("the connection was closed")
        received += part
    return received
