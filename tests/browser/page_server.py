"""Serves the page's files and a world's answers, with the headers that the page has in Airflow."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import tideline.page

ASSETS = Path(tideline.page.__file__).parent / "assets"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"
)
SANDBOX = "allow-scripts allow-same-origin allow-forms allow-downloads"  # as Airflow's UI has it
TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_API = "/tideline/api/v1/"
_HOST = """<!doctype html><html class="{theme}"><head><title>host</title></head><body>
<iframe width="1200" height="700" sandbox="{sandbox}" src="/tideline/{query}"></iframe>
</body></html>"""


@contextmanager
def serving(world):
    """Serve a world on a port of this machine; gives the address of its root."""
    handler = type("Handler", (_Handler,), {"world": world})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    world = None

    def do_GET(self):
        address = urlsplit(self.path)
        query = dict(parse_qsl(address.query))
        if address.path.startswith(_API):
            self._api(address.path.removeprefix(_API), query)
        elif address.path.startswith("/tideline/"):
            self._file(address.path.removeprefix("/tideline/").removeprefix("assets/"))
        elif address.path == "/api/v2/dags":
            found = self.world.paused if "paused" in query else self.world.failed
            page = sorted(found)[int(query["offset"]) :][: int(query["limit"])]
            self._json(200, {"dags": [{"dag_id": d} for d in page], "total_entries": len(found)})
        elif "/logs/" in address.path:
            self._json(200, {"content": self.world.log})
        elif address.path.endswith("/taskInstances"):
            self._json(200, {"task_instances": self.world.tasks})
        elif address.path.endswith("/dagRuns"):
            self._json(200, {"dag_runs": self.world.airflows})
        elif "/dagRuns/" in address.path:
            self._json(200, {"state": self.world.sent_state})
        elif address.path.startswith("/api/v2/dags/"):
            self._json(200, {"is_paused": address.path.split("/")[4] in self.world.paused})
        elif address.path == "/host":
            asked = address.query.partition("page=")[2]
            host = _HOST.format(theme=query["theme"], sandbox=SANDBOX, query=asked)
            self._reply(200, "text/html", host.encode())
        else:
            self._reply(200, "text/html", b"<!doctype html><title>a page of Airflow</title>")

    def do_POST(self):
        """As Airflow's API takes a run of a Dag."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.world.sent.append((urlsplit(self.path).path, body))
        status, answer = self.world.taken
        self._json(status, answer)

    def _api(self, path, query):
        refused = self.world.refused.get(path) or self.world.refused.get("*")
        if refused:
            status, error, message = refused
            return self._json(status, {"error": error, "message": message})
        found = self.world.answer([unquote(part) for part in path.split("/")], query)
        if found is None:
            return self._json(404, {"error": "BadInput", "message": "no such stream"})
        return self._json(200, found.data())

    def _file(self, name):
        file = ASSETS / (name or "index.html")
        if "/" in name or not file.is_file():
            self._reply(404, "text/plain", b"no such file")
        else:
            self._reply(200, TYPES[file.suffix], file.read_bytes())

    def _json(self, status, value):
        self._reply(status, "application/json", json.dumps(value).encode())

    def _reply(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if self.path.startswith("/tideline/"):
            self.send_header("Content-Security-Policy", POLICY)
            self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""
