"""A real server of Airflow's, with two streams, and users who may read one, both or none."""

from pathlib import Path

import httpx
import pytest

from devstack.airflow_services import EmbeddedAirflow

USERS = {"vera": "viewer", "norah": "viewer"}
"""Beside the administrator: one who may read the stream `shown`, and one who may read none."""
STREAM = """\
stream: {name}
kafka: {{topics: [orders]}}
table: {{uri: {folder}/{name}}}
"""


@pytest.fixture(scope="session")
def page_server(tmp_path_factory):
    """Airflow's API server alone; its database knows the Dags."""
    folder = tmp_path_factory.mktemp("page")
    streams = folder / "streams"
    streams.mkdir()
    for name in ("shown", "hidden"):
        (streams / f"{name}.yaml").write_text(STREAM.format(name=name, folder=folder))
    environment = {
        "AIRFLOW__CORE__AUTH_MANAGER": "tests.page.per_dag_auth.PerDagAuthManager",
        "PYTHONPATH": f"{Path(__file__).parents[2]}/plugins:{Path(__file__).parents[2]}",
        "AIRFLOW_CONN_KAFKA_DEFAULT": '{"conn_type": "kafka", "extra":'
        ' {"bootstrap.servers": "127.0.0.1:1", "default.api.timeout.ms": "300"}}',
    }
    airflow = EmbeddedAirflow(folder / "home", streams, environment, users=USERS)
    yield airflow.start_pages()
    airflow.stop()


@pytest.fixture(scope="session")
def callers(page_server):
    """An HTTP client for each kind of caller, logged in as a browser would be."""
    found = {"anonymous": httpx.Client(base_url=page_server.url)}
    for name in ("norah", "vera", "admin"):
        answer = httpx.post(f"{page_server.url}/auth/token", json=page_server.login(name))
        # As a browser: the page has no other way to say who calls.
        found[name] = httpx.Client(
            base_url=page_server.url, cookies={"_token": answer.json()["access_token"]}
        )
    yield found
    for client in found.values():
        client.close()
