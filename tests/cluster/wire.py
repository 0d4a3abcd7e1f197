"""What passes over the loopback interface, as another machine of the network would hear it."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

_EVERYTHING = 3
"""ETH_P_ALL of packet(7)."""
_FORCED_BUFFER = 33
"""SO_RCVBUFFORCE of socket(7)."""
_BUFFER_BYTES = 64 * 1024 * 1024


class Wire:
    """Listens, inside of its block, for words; needs root, or CAP_NET_RAW.

    Args:
        words: What to listen for.

    `packets` counts what passed; `heard` has the words that were in them.
    """

    def __init__(self, *words: str) -> None:
        self.packets = 0
        self.heard: set[str] = set()
        self._words = words
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True)

    def __enter__(self) -> Wire:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERYTHING))
        self._socket.setsockopt(socket.SOL_SOCKET, _FORCED_BUFFER, _BUFFER_BYTES)
        self._socket.bind(("lo", _EVERYTHING))
        self._socket.settimeout(0.2)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._socket.close()

    def _listen(self) -> None:
        wanted = {word: word.encode() for word in self._words}
        while not self._ended.is_set():
            with suppress(TimeoutError):
                packet = self._socket.recv(70_000)
                self.packets += 1
                self.heard |= {word for word, text in wanted.items() if text in packet}
