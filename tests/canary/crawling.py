"""Every address of Airflow's API and page that a run fills in."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping

import httpx

from devstack.airflow_client import AirflowClient
from devstack.airflow_services import EmbeddedAirflow

_NAME = re.compile(r"{(\w+)}")
_PAGES = ("/", "/dags", "/connections", "/config", "/tideline/")
_DESCRIBED = {"": "/openapi.json", "/tideline": "/tideline/api/v1/openapi.json"}
"""Airflow's API, and that of our page."""


def crawl(airflow: EmbeddedAirflow, client: AirflowClient) -> Iterator[tuple[str, bytes]]:
    """Get every address of the described API that takes no body, for every task of every run.

    Args:
        airflow: With its administrator's login: whoever sees most.
        client: Knows Dags, runs and tasks.

    Yields:
        Address and answer, refusals as well.
    """
    login = {"username": airflow.username, "password": airflow.password}
    with httpx.Client(base_url=airflow.url, timeout=60, follow_redirects=True) as web:
        token = web.post("/auth/token", json=login).raise_for_status().json()["access_token"]
        web.headers["Authorization"] = f"Bearer {token}"
        gets = [
            prefix + path
            for prefix, description in _DESCRIBED.items()
            for path, methods in web.get(description).raise_for_status().json()["paths"].items()
            if "get" in methods
        ]
        wanted = {_filled(path, values) for path in gets for values in _values(client)}
        for address in sorted({*filter(None, wanted), *_PAGES}):
            if "/wait" in address or address.endswith("/logout"):
                continue
            yield address, web.get(address).content


def _values(client: AirflowClient) -> Iterator[Mapping[str, str]]:
    for dag in client.dags():
        runs = client.runs(dag)
        yield {"dag_id": dag}
        for run in runs:
            tasks = client.tasks(dag, run["dag_run_id"])
            for task, tries in itertools.product(tasks, (1, 2)):
                yield {
                    "dag_id": dag,
                    "dag_run_id": run["dag_run_id"],
                    "run_id": run["dag_run_id"],
                    "task_id": task,
                    "map_index": "-1",
                    "try_number": str(tries),
                    "task_try_number": str(tries),
                    "xcom_key": "return_value",
                    "connection_id": "kafka_stored",
                    "topic": "orders",
                    "partition": "0",
                    "offset": "0",
                }


def _filled(path: str, values: Mapping[str, str]) -> str | None:
    """None when the path asks for something that nobody knows here."""
    if not set(_NAME.findall(path)) <= values.keys():
        return None
    return _NAME.sub(lambda found: values[found[1]], path)
