"""Catalogs in memory, and Unity's REST as its open server answers; and what each has to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

from tideline.catalog.catalog_port import CatalogPort, SchemaMissing
from tideline.model.catalog import EXTERNAL, CatalogEntry, TableName


class MemoryCatalog:
    """`CatalogPort` in memory.

    Args:
        schemas: Those that are there.
    """

    def __init__(self, *schemas: str) -> None:
        self.schemas = {*schemas}
        self.entries: dict[TableName, CatalogEntry] = {}
        self.asked = 0
        self.before: Callable[[], None] = lambda: None
        """Happens before each answer: it may raise, or hang."""

    def find(self, name: TableName) -> CatalogEntry | None:
        self.asked += 1
        self.before()
        if ".".join(name.path[:-1]) not in self.schemas:
            raise SchemaMissing
        return self.entries.get(name)

    def create(self, name: TableName, uri: str, stream: str) -> None:
        self.entries.setdefault(name, CatalogEntry(uri, EXTERNAL, "delta", "an id"))


def behaves(
    catalog: CatalogPort, folder: str, name: str, make_schema: Callable[[str], None]
) -> None:
    """What each catalog does, in memory and elsewhere.

    Args:
        folder: Where tables are.
        name: Of a table in a schema that is not there yet.
        make_schema: Makes it.
    """
    path = TableName.of(name)
    try:
        catalog.find(path)
        raise AssertionError("the schema is there")
    except SchemaMissing:
        make_schema(".".join(path.path[:-1]))
    assert catalog.find(path) is None
    catalog.create(path, f"{folder}/orders", "orders")
    catalog.create(path, f"{folder}/other", "orders")  # the first one counts
    entry = catalog.find(path)
    assert entry is not None
    assert (entry.kind, entry.format) == (EXTERNAL, "delta")
    assert entry.location is not None
    assert entry.location.endswith("/orders")


class UnityServer:
    """Answers as Unity Catalog's open server 0.7.0 was seen to; it is not that server."""

    def __init__(self) -> None:
        self.schemas: set[str] = set()
        self.tables: dict[str, dict[str, Any]] = {}
        self.headers: list[str | None] = []
        self.refuses: int | None = None
        self.answers: Callable[[BaseHTTPRequestHandler], None] | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                """Nothing."""

            def _answer(self, status: int, body: dict[str, Any]) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                server.headers.append(self.headers.get("Authorization"))
                if server.answers is not None:
                    server.answers(self)
                    return
                if server.refuses is not None:
                    self._answer(server.refuses, {"error_code": "UNAUTHENTICATED"})
                    return
                kind, name = self.path.removeprefix("/api/2.1/unity-catalog/").split("/")
                if kind == "schemas" and name in server.schemas:
                    self._answer(200, {"full_name": name})
                elif kind == "tables" and name in server.tables:
                    self._answer(200, server.tables[name])
                else:
                    self._answer(404, {"error_code": f"{kind[:-1].upper()}_NOT_FOUND"})

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                asked = json.loads(self.rfile.read(length))
                schema = f"{asked['catalog_name']}.{asked['schema_name']}"
                name = f"{schema}.{asked['name']}"
                if name in server.tables:
                    self._answer(400, {"error_code": "TABLE_ALREADY_EXISTS"})
                else:
                    server.tables[name] = asked | {"table_id": f"id of {name}"}
                    self._answer(200, server.tables[name])

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._http.server_port
        self._thread = Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End it."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
