"""A small HTTP or HTTPS server whose answers a test decides."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path

from devstack.process import HOST, free_ports

Answer = Callable[[BaseHTTPRequestHandler], None]


class HttpStub:
    """Answers every GET, HEAD and POST by calling `answer`; `asked` holds path and headers of each.

    Args:
        certificate: File with certificate and key; None for plain HTTP.
        client_ca: Authority whose client certificates are asked for.
    """

    def __init__(self, certificate: Path | None = None, client_ca: Path | None = None) -> None:
        self.answer: Answer = json_answer({})
        self.asked: list[tuple[str, dict[str, str]]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.asked.append((self.path, dict(self.headers)))
                stub.answer(self)

            def do_HEAD(self) -> None:
                self.do_GET()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                self.rfile = BytesIO(body)  # an answer that does not read it cuts nobody off
                self.do_GET()

            def log_message(self, *_: object) -> None:
                """The test says what happened."""

        self.port = free_ports(1)[0]
        self._server = _Server((HOST, self.port), Handler)
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            if client_ca is not None:
                context.load_verify_locations(client_ca)
                context.verify_mode = ssl.CERT_REQUIRED
            self._server.context = context
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def connection(self, **more: object) -> dict[str, object]:
        """An Airflow connection to it; `more` replaces parts of it."""
        scheme = "http" if self._server.context is None else "https"
        base = {"conn_type": "http", "host": HOST, "port": self.port, "schema": scheme}
        return {**base, **more}

    def close(self) -> None:
        """Stop serving; answers that are under way are not waited for."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    """Does the TLS handshake in the connection's own thread."""

    context: ssl.SSLContext | None = None
    daemon_threads = True
    block_on_close = False

    def finish_request(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        if self.context is not None:
            request = self.context.wrap_socket(request, server_side=True)
        super().finish_request(request, client_address)

    def handle_error(self, *_: object) -> None:
        """A refused handshake is what a test is about."""


@contextmanager
def http_stub(certificate: Path | None = None, client_ca: Path | None = None) -> Iterator[HttpStub]:
    """Start one, and stop it at the end."""
    stub = HttpStub(certificate, client_ca)
    try:
        yield stub
    finally:
        stub.close()


def json_answer(body: object, status: int = 200) -> Answer:
    """Answer with JSON."""
    return text_answer(json.dumps(body), status)


def text_answer(text: str, status: int = 200, **headers: str) -> Answer:
    """Answer with a text and headers."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        data = text.encode()
        request.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(data)

    return answer
