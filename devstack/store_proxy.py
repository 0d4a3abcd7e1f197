"""An HTTP proxy in front of an object store: it counts requests and makes faults.

It is a process of its own: delta-rs holds Python's lock while it waits for some answers, so a
proxy in the same process would never give them. It passes the `Host` header on as it came, since
clients sign it.
"""

from __future__ import annotations

import multiprocessing
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.managers import BaseManager
from typing import Any

from devstack.process import HOST, free_ports, wait_until
from devstack.store_faults import Adapter, Hold, Rule, StoreAnswer, StoreRequest, events

_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "proxy-connection"}
"""Headers of one connection, in lower case."""
_TIMEOUT_SECONDS = 60


class StoreProxy:
    """Forwards requests to a store, from a process of its own.

    Args:
        target_port: The store's port.
        port: Port of the proxy; a free one when None.
        adapter: Makes of each request what the store understands; see `devstack.store_faults`.
    """

    def __init__(
        self, target_port: int, port: int | None = None, adapter: Adapter | None = None
    ) -> None:
        self.port = port or free_ports(1)[0]
        self._manager = _Manager(ctx=multiprocessing.get_context("spawn"))
        self._manager.start()
        self._inside: Any = self._manager.Inside(  # type: ignore[attr-defined]
            target_port, self.port, adapter
        )

    @property
    def endpoint(self) -> str:
        """URL for clients that shall feel the faults."""
        return f"http://{HOST}:{self.port}"

    @property
    def requests(self) -> list[StoreRequest]:
        """Every request since `clear`, in the order in which they came, without bodies."""
        found: list[StoreRequest] = self._inside.listed()
        return found

    @property
    def answered(self) -> list[tuple[StoreRequest, int | None]]:
        """What was answered since `clear`, with HTTP's status; None where the answer was lost."""
        found: list[tuple[StoreRequest, int | None]] = self._inside.answered()
        return found

    def __enter__(self) -> StoreProxy:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the process; requests under way are not waited for."""
        self._manager.shutdown()

    def add(self, rule: Rule) -> Rule:
        """Switch a rule on; those that were added before come first."""
        self._inside.add(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Switch a rule off."""
        self._inside.remove(rule.name)

    @contextmanager
    def applying(self, rule: Rule) -> Iterator[Rule]:
        """Switch a rule on for a block."""
        try:
            yield self.add(rule)
        finally:
            self.remove(rule)

    def applied(self, rule: Rule) -> int:
        """How often a rule was applied."""
        return int(self._inside.count_of(rule.name))

    def wait_reached(self, hold: Hold, timeout_seconds: float = 30) -> None:
        """Wait until a request is held."""
        wait_until(
            lambda: self._inside.is_reached(hold.name), f"{hold} not reached", timeout_seconds, 0.01
        )

    def release(self, hold: Hold) -> None:
        """Let a held request go on, and every later one."""
        self._inside.release(hold.name)

    def clear(self) -> None:
        """As new: no rules, nothing counted."""
        self._inside.clear()


class _Inside:
    """What the other process does."""

    def __init__(self, target_port: int, port: int, adapter: Adapter | None) -> None:
        self._target_port = target_port
        self._adapter = adapter
        self._lock = threading.Lock()
        self._rules: tuple[Rule, ...] = ()
        self._requests: list[StoreRequest] = []
        self._answered: list[tuple[StoreRequest, int | None]] = []
        self._applied: Counter[str] = Counter()
        self._met: Counter[str] = Counter()
        server = _Server((HOST, port), _Handler)
        server.inside = self
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def listed(self) -> list[StoreRequest]:
        with self._lock:
            return list(self._requests)

    def answered(self) -> list[tuple[StoreRequest, int | None]]:
        with self._lock:
            return list(self._answered)

    def add(self, rule: Rule) -> None:
        with self._lock:
            self._rules = (*self._rules, rule)

    def remove(self, name: str) -> None:
        with self._lock:
            self._rules = tuple(r for r in self._rules if r.name != name)

    def count_of(self, name: str) -> int:
        return self._applied[name]

    def is_reached(self, name: str) -> bool:
        return events(name)[0].is_set()

    def release(self, name: str) -> None:
        events(name)[1].set()

    def clear(self) -> None:
        with self._lock:
            self._rules, self._requests, self._answered = (), [], []

    def answer(self, request: StoreRequest) -> StoreAnswer | None:
        listed = replace(request, body=b"")
        with self._lock:
            self._requests.append(listed)
            rule = next((r for r in self._rules if self._takes(r, request)), None)

        def forward() -> StoreAnswer:
            if self._adapter is None:
                return self._forward(request)
            return self._adapter(request, self._forward)

        answer = forward() if rule is None else rule.fault(request, forward)
        with self._lock:
            self._answered.append((listed, None if answer is None else answer.status))
        return answer

    def _takes(self, rule: Rule, request: StoreRequest) -> bool:
        if not rule.matches(request):
            return False
        if rule.times is not None and self._applied[rule.name] >= rule.times:
            return False
        self._met[rule.name] += 1
        applies = self._met[rule.name] > rule.skip
        self._applied[rule.name] += applies
        return applies

    def _forward(self, request: StoreRequest) -> StoreAnswer:
        link = HTTPConnection(HOST, self._target_port, timeout=_TIMEOUT_SECONDS)
        try:
            link.putrequest(
                request.method, request.target, skip_host=True, skip_accept_encoding=True
            )
            for name, value in request.headers.items():
                if name not in _HOP and name != "content-length":
                    link.putheader(name, value)
            if request.body or request.method in ("PUT", "POST"):
                link.putheader("Content-Length", str(len(request.body)))
            link.endheaders(request.body or None)
            answer = link.getresponse()
            return StoreAnswer(answer.status, tuple(answer.getheaders()), answer.read())
        finally:
            link.close()


class _Manager(BaseManager):
    """Its process ends with this one."""


_Manager.register("Inside", _Inside)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    inside: _Inside

    def handle_error(self, *_: object) -> None:
        """A cut connection is what a test is about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def _exchange(self) -> None:
        headers = {name.lower(): value for name, value in self.headers.items()}
        request = StoreRequest(self.command, self.path, headers, self._body(headers))
        answer = self.server.inside.answer(request)
        if answer is None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response_only(answer.status)
        length = str(len(answer.body))
        for name, value in answer.headers:
            if name.lower() == "content-length":
                length = value if self.command == "HEAD" else length
            elif name.lower() not in _HOP:
                self.send_header(name, value)
        if answer.status != 204:
            self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _exchange  # noqa: N815

    def _body(self, headers: dict[str, str]) -> bytes:
        if "chunked" not in headers.get("transfer-encoding", ""):
            return self.rfile.read(int(headers.get("content-length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def log_message(self, *_: object) -> None:
        """The test says what happened."""
