"""Every route of the page, as each kind of caller: it is closed unless Airflow says otherwise."""

import html
import re

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient
from starlette.routing import Mount

from tideline.page.app import build_app
from tideline.page.routes import LOGGED_IN, _readable

CALLERS = ("anonymous", "norah", "vera", "admin")
"""Nobody, who may read no Dag, who may read `shown`, who may read all."""
EVERYBODY = {"anonymous": 401, "norah": 200, "vera": 200, "admin": 200}
SHOWN = {"anonymous": 401, "norah": 403, "vera": 200, "admin": 200}
HIDDEN = {"anonymous": 401, "norah": 403, "vera": 403, "admin": 200}
VALUES = {"name": "main.js", "topic": "orders", "partition": "0", "offset": "0"}
VALUES |= {"page": "page.md", "folder": "how-to", "part": "read-again.md"}


def routes():
    """All routes of the application itself: one without a check has no way around this list."""
    app = build_app()
    assert not [r for r in app.routes if isinstance(r, Mount)], "a mount has no check"
    assert all(isinstance(r, APIRoute) for r in app.routes), app.routes
    return sorted((r.path, tuple(sorted(r.methods))) for r in app.routes)


def cases():
    for path, _ in routes():
        if "{stream}" in path:
            yield path, "shown", SHOWN
            yield path, "hidden", HIDDEN
        else:
            yield path, "", EVERYBODY


def url(path, stream):
    return "/tideline" + path.format(stream=stream, **VALUES)


def has_headers(answer):
    """Those that keep the page in Airflow's frame, whatever the answer is."""
    assert "frame-ancestors 'self'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "SAMEORIGIN"
    assert answer.headers["cache-control"] == "no-store"


def listed(app):
    """The answer to somebody who may read no stream."""
    app.dependency_overrides[LOGGED_IN.dependency] = lambda: None
    app.dependency_overrides[_readable] = lambda: set()
    with TestClient(app, raise_server_exceptions=False) as client:
        return client.get("/api/v1/streams")


def test_what_nobody_has_thought_of_has_the_headers_too(tmp_path):
    """And says nothing of its cause."""
    app = build_app(tmp_path)
    app.state.sources = None
    answer = listed(app)
    assert answer.status_code == 500
    assert answer.json() == {"error": "InternalError", "message": "see the log of Airflow's server"}
    has_headers(answer)


def test_who_may_read_nothing_learns_no_path(tmp_path, caplog):
    """Of the server's folders; its log has it."""
    answer = listed(build_app(tmp_path / "none"))
    assert answer.json()["error"] == "BadInput"
    assert "see the log" in answer.json()["message"]
    assert str(tmp_path) not in answer.text
    assert str(tmp_path / "none") in caplog.text


@pytest.mark.parametrize(("path", "stream", "expected"), cases())
def test_each_route_answers_those_who_may_read(callers, path, stream, expected):
    """A user without the right learns nothing, not even whether there is such a stream."""
    answers = {name: client.get(url(path, stream)) for name, client in callers.items()}
    assert {name: a.status_code for name, a in answers.items()} == expected
    for answer in answers.values():
        has_headers(answer)


def test_no_route_does_anything_but_answer():
    """A link, an image or a form of somebody else's page can start nothing."""
    assert {methods for _, methods in routes()} == {("GET",)}


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
def test_other_methods_are_refused(callers, method):
    """For an administrator as well."""
    for path, _ in routes():
        assert callers["admin"].request(method, url(path, "shown")).status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "/docs",
        "/redoc",
        "/openapi.json",
        "/api/v1/streams/shown/nothing",
        "/assets/../app.py",
        "/assets/..%2fapp.py",
        "/assets/%2e%2e%2fapp.py",
        "/assets/app.py",
        "/docs/../README.md",
        "/docs/..%2fREADME.md",
        "/docs/%2e%2e/README.md",
        "/docs/how-to/..%2fpage.md",
        "/docs/stream.schema.json",
        f"/assets/{'a' * 300}.js",
        f"/docs/{'a' * 300}.md",
        "/assets/main.js%00",
        "/nothing",
    ],
)
def test_there_is_nothing_beside_the_routes(callers, path):
    """FastAPI's own pages are off, and no other file of the package is served."""
    for name in CALLERS:
        answer = callers[name].get("/tideline" + path)
        assert answer.status_code in (401, 404)
        has_headers(answer)


def test_lists_show_what_the_caller_may_read(callers):
    """And the same stream is refused by name."""
    names = {
        name: [s["stream"] for s in client.get("/tideline/api/v1/streams").json()["streams"]]
        for name, client in callers.items()
        if name != "anonymous"
    }
    assert names == {"norah": [], "vera": ["shown"], "admin": ["hidden", "shown"]}


def test_a_stream_that_is_not_there_is_no_leak(callers):
    """Who may not read gets the same answer as for one that is there."""
    answers = {n: c.get("/tideline/api/v1/streams/none") for n, c in callers.items()}
    assert {n: a.status_code for n, a in answers.items()} == {
        "anonymous": 401,
        "norah": 403,
        "vera": 403,
        "admin": 403,
    }


def test_bad_input_is_named(callers):
    """The key and what is allowed; the value is not shown again."""
    base = "/tideline/api/v1/streams/shown"
    for path in (
        "/partitions?sort=size",
        "/partitions?count=0",
        "/runs?count=501",
        "/records/orders/-1/0",
        "/records/orders/0/9223372036854775808",
    ):
        answer = callers["admin"].get(base + path)
        assert answer.status_code == 422
        assert set(answer.json()) == {"error", "message"}


def test_airflow_shows_the_page_in_its_navigation_and_on_each_dag(callers):
    """Two external views of one plugin; its import errors would hide them."""
    plugins = callers["admin"].get("/api/v2/plugins").json()["plugins"]
    (ours,) = [p for p in plugins if p["name"] == "tideline"]
    assert {(v["destination"], v["href"]) for v in ours["external_views"]} == {
        ("nav", "/tideline/"),
        ("dag", "/tideline/?stream={DAG_ID}"),
    }
    assert callers["admin"].get("/api/v2/plugins/importErrors").json()["total_entries"] == 0


@pytest.mark.parametrize(
    "path", ["/tideline/", "/tideline/?stream=%22%3E%3Cscript%3E", "/tideline/api/v1/streams"]
)
def test_a_browser_without_a_login_is_led_to_airflow_s(callers, path):
    """From a bookmark; and from there back. Nothing of the address becomes a part of the page."""
    answer = callers["anonymous"].get(path, headers={"Accept": "text/html,*/*"})
    assert answer.status_code == 401
    assert "<script>" not in answer.text
    (link,) = re.findall('href="([^"]*)"', answer.text)
    target = answer.url.join(html.unescape(link))
    assert target.path == "/api/v2/auth/login"
    assert target.params["next"] == path
    login = callers["anonymous"].get(target, follow_redirects=True)
    assert login.status_code == 200
    assert login.url.path.startswith("/auth/")
