"""What crosses a wire: a relay between those who connect and a server, which looks at each byte."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

_CHUNK = 65_536


class Wire:
    """What has passed so far.

    Args:
        sought: Texts to look for, as UTF-8; wherever the bytes are cut.
    """

    def __init__(self, *sought: str) -> None:
        self.seen: set[str] = set()
        self.bytes = 0
        self.connections = 0
        self._sought = {text: text.encode() for text in sought}
        self._overlap = max(map(len, self._sought.values())) - 1
        self._lock = threading.Lock()

    def pass_on(self, source: socket.socket, target: socket.socket) -> None:
        """Copy one direction of a connection to its end, and look at it."""
        tail = b""
        with contextlib.suppress(OSError):  # one of the two has gone
            while chunk := source.recv(_CHUNK):
                looked = tail + chunk
                found = {text for text, wanted in self._sought.items() if wanted in looked}
                with self._lock:
                    self.seen |= found
                    self.bytes += len(chunk)
                tail = looked[-self._overlap :]
                target.sendall(chunk)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def connect(self, client: socket.socket, server: tuple[str, int]) -> None:
        """Serve a connection to its end."""
        with self._lock:
            self.connections += 1
        with client, contextlib.suppress(OSError), socket.create_connection(server) as upstream:
            there = threading.Thread(target=self.pass_on, args=(client, upstream), daemon=True)
            there.start()
            self.pass_on(upstream, client)
            there.join()


@contextmanager
def tapped(wire: Wire, host: str, server_host: str, ports: Iterable[int]) -> Iterator[None]:
    """Listen on ports of one address, and pass on to the same ports of another one.

    Args:
        wire: Looks at what passes.
        host: Address that is listened on.
        server_host: Address of the servers, which may start later.
        ports: Of both.
    """
    listeners = [socket.create_server((host, port)) for port in ports]

    def accept(listener: socket.socket, port: int) -> None:
        with contextlib.suppress(OSError):  # closed at the end
            while True:
                client, _ = listener.accept()
                arguments = (client, (server_host, port))
                threading.Thread(target=wire.connect, args=arguments, daemon=True).start()

    for listener, port in zip(listeners, ports, strict=True):
        threading.Thread(target=accept, args=(listener, port), daemon=True).start()
    try:
        yield
    finally:
        for listener in listeners:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes up who accepts
            listener.close()
