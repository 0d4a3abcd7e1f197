"""Services that take a connection and never answer: one of them hides no other stream."""

import json
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from fastapi.testclient import TestClient

from devstack.airflow_services import EmbeddedAirflow
from devstack.process import wait_until
from tideline.page import routes, sources
from tideline.page.app import build_app

ROOT = Path(__file__).parents[2]
STREAMS = 40
SHOWN = f"stream-{STREAMS // 2}"
LATE = "no answer within"
"""What is said of a service that is still waited for; when its own client gives up is later."""
AWAY = '{"conn_type": "kafka", "extra": {"bootstrap.servers": "127.0.0.1:1"}}'
TEXT = "stream: {name}\nkafka: {{connection: {kafka}, topics: [orders]}}\n"
IN_FOLDER = "table: {{uri: {folder}/{name}}}\n"
REGISTRY = (
    "registry: {{connection: hanging_registry}}\ndecode:\n"
    "  value: {{format: json, subject: orders}}\n"
    "  table: {{uri: {folder}/typed}}\n  quarantine: {{uri: {folder}/quarantine}}\n"
)
PARTS = {
    "store": "table: {{uri: s3a://lake/{name}, connection: hanging_store}}\n",
    "database": IN_FOLDER + "ledger: airflow\nledger_connection: hanging_database\n",
    "brokers": IN_FOLDER,
    "registry": IN_FOLDER + REGISTRY,
}
"""What is in the file of the one stream whose service hangs."""


@pytest.fixture
def connections():
    """To a port that takes connections and says nothing; and to brokers that are away."""
    with socket.create_server(("127.0.0.1", 0), backlog=500) as silent:
        port = silent.getsockname()[1]
        address = f"127.0.0.1:{port}"
        keys = {"conn_type": "aws", "login": "a", "password": "b"}
        database = {"conn_type": "postgres", "host": "127.0.0.1", "port": port, "schema": "books"}
        yield {
            "AIRFLOW_CONN_AWAY": AWAY,
            "AIRFLOW_CONN_HANGING_STORE": json.dumps(
                {**keys, "extra": {"endpoint_url": f"http://{address}", "region_name": "x"}}
            ),
            "AIRFLOW_CONN_HANGING_DATABASE": json.dumps(database),
            "AIRFLOW_CONN_HANGING_BROKERS": AWAY.replace("127.0.0.1:1", address),
            "AIRFLOW_CONN_HANGING_REGISTRY": json.dumps(
                {"conn_type": "http", "host": f"http://{address}"}
            ),
        }
    # Python must not end while delta-rs is about to come back to it.
    wait_until(lambda: not questions(), f"questions go on: {questions()}", 90)


def questions():
    """Names of threads that wait for a service."""
    return [t.name for t in threading.enumerate() if t.name.endswith("-question")]


@pytest.fixture(
    params=[
        pytest.param(kind, marks=[pytest.mark.slow] if kind in ("store", "registry") else [])
        for kind in PARTS
    ]
)
def service(request):
    """The kind of service that hangs."""
    return request.param


@pytest.fixture
def folder(tmp_path, service):
    """Stream files, of which one names the service that hangs."""
    found = tmp_path / "streams"
    found.mkdir()
    for number in range(STREAMS):
        name = f"stream-{number}"
        hangs = name == SHOWN
        kafka = "hanging_brokers" if hangs and service == "brokers" else "away"
        text = TEXT + (PARTS[service] if hangs else IN_FOLDER)
        (found / f"{name}.yaml").write_text(text.format(name=name, kafka=kafka, folder=tmp_path))
    return found


@pytest.fixture
def api(folder, connections, monkeypatch):
    """A client of the application; Airflow is not asked who calls."""
    for name, value in connections.items():
        monkeypatch.setenv(name, value)
    for module in (sources, routes):
        monkeypatch.setattr(module, "PATIENCE_SECONDS", 2)
    app = build_app(folder)
    app.dependency_overrides[routes.LOGGED_IN.dependency] = lambda: None
    app.dependency_overrides[routes.MAY_READ.dependency] = lambda: None
    app.dependency_overrides[routes._readable] = lambda: {f"stream-{n}" for n in range(STREAMS)}
    with TestClient(app, base_url="http://testserver/api/v1") as client:
        yield client


class Watch:
    """Asks, and prints how long each answer took."""

    def __init__(self, api, service):
        self.api = api
        self.service = service

    def __call__(self, path):
        began = time.perf_counter()
        answer = self.api.get(path)
        seconds = time.perf_counter() - began
        said = answer.json().get("message", "")
        print(f"{self.service} hangs: {path}: {answer.status_code} in {seconds:.3f} s {said}")
        return answer, seconds


def listed(api):
    """The streams by name."""
    return {one["stream"]: one for one in api.get("/streams").json()["streams"]}


def answered(one, whose):
    """Whether a look at a service has come to something."""
    return one[whose]["asked_at"] is not None or one[whose]["problem"] is not None


def test_one_that_hangs_hides_no_other(api, service):
    """Its own place says so; each other stream is answered while it still hangs."""
    whose = "brokers" if service == "brokers" else "ledger"
    ask = Watch(api, service)
    with ThreadPoolExecutor(8) as viewers:  # several people look at the very stream
        history = [f"/streams/{SHOWN}/{what}" for what in ("runs", "incidents")] * 4
        first = list(viewers.map(ask, history))
    found, began = [], time.perf_counter()

    def others_are_answered():
        found.append(listed(api))
        others = [one for name, one in found[-1].items() if name != SHOWN]
        return all(answered(one, "ledger") and answered(one, "brokers") for one in others)

    wait_until(others_are_answered, "the others are not answered", 60)
    took = time.perf_counter() - began
    print(f"{service} hangs: {STREAMS - 1} others answered {took:.1f} s after the list was opened")
    assert all(one["ledger"]["asked_at"] for name, one in found[-1].items() if name != SHOWN)
    if service == "registry":  # the page asks none
        assert found[-1][SHOWN]["ledger"]["asked_at"] is not None
        assert {answer.status_code for answer, _ in first} == {200}
        return
    said = found[-1][SHOWN][whose]["problem"]
    assert said is None or LATE in said, "it hung no longer when the others were answered"
    wait_until(lambda: listed(api)[SHOWN][whose]["problem"], "it is not told", 60)
    shown, seconds = ask(f"/streams/{SHOWN}")
    assert LATE in shown.json()[whose]["problem"]
    assert seconds < sources.PATIENCE_SECONDS
    if whose == "brokers":
        assert {answer.status_code for answer, _ in first} == {200}
        return
    assert {answer.status_code for answer, _ in first} == {503}
    again, seconds = ask(f"/streams/{SHOWN}/runs")
    assert f"the ledger of {SHOWN} has not answered within" in again.json()["message"]
    assert seconds < sources.PATIENCE_SECONDS, "nobody waits for what others wait for in vain"
    other, seconds = ask("/streams/stream-1/runs")
    assert (other.status_code, seconds < sources.PATIENCE_SECONDS) == (200, True)


LOOK = """\
import sys, time
from pathlib import Path
from tideline.page.sources import Sources
sources = Sources(Path(sys.argv[1]))
sources.view(sys.argv[2])
sources.ask(sys.argv[2], lambda ledger: ledger.read())
time.sleep(0.5)
print(sources.view(sys.argv[2]).is_pending, flush=True)
"""


@pytest.mark.parametrize("service", ["database"], indirect=True)
def test_a_process_ends_while_a_service_hangs(folder, connections):
    """Python waits for threads of an executor; a server that is told to end must not."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", LOOK, folder, SHOWN],
        env={**connections, "PYTHONPATH": str(ROOT / "plugins")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    took = time.perf_counter() - began
    print(f"ended after {took:.1f} s")
    assert (done.stdout, done.returncode) == ("True\n", 0), done.stderr
    assert took < 10, "it ended no sooner than the database's driver gave up"


@pytest.mark.slow
def test_airflow_s_server_starts_and_stops_while_services_hang(folder, connections, service):
    """It is asked for the very stream in between."""
    environment = {"PYTHONPATH": f"{ROOT}/plugins:{ROOT}", **connections}
    airflow = EmbeddedAirflow(folder.parent / "home", folder, environment)
    airflow.start_pages()
    took = []
    try:
        server = airflow.servers["api-server"]
        token = httpx.post(f"{airflow.url}/auth/token", json=airflow.login("admin")).json()
        cookies = {"_token": token["access_token"]}
        with httpx.Client(base_url=airflow.url, cookies=cookies, timeout=60) as client:
            for _ in range(4):
                began = time.perf_counter()
                answer = client.get(f"/tideline/api/v1/streams/{SHOWN}")
                took.append(time.perf_counter() - began)
                assert (answer.status_code, answer.json()["stream"]) == (200, SHOWN)
    finally:
        began = time.perf_counter()
        airflow.stop()
        stopping = time.perf_counter() - began
    shown = ", ".join(f"{seconds:.1f}" for seconds in took)
    print(f"{service} hangs: answers after {shown} s, stopped after {stopping:.1f} s")
    assert max(took) < 2 * sources.PATIENCE_SECONDS
    assert stopping < 20, "it ends only after it was killed"
    assert not server.is_alive
