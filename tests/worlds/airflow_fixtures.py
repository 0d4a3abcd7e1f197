"""Fixtures: a real Airflow on the session's broker, and streams in the folder that it parses."""

import json

import pytest

from devstack.airflow_client import AirflowClient
from devstack.airflow_harness import AirflowHarness
from devstack.stack import Stack
from tests.worlds.statsd_server import statsd_server

USERS = {"vera": "viewer", "olga": "user", "otto": "user"}
"""Beside the administrator: one who may look, and two who may trigger and answer."""


@pytest.fixture(scope="session")
def spark_connections(connect_server):
    """A warm Spark by default, and by `cold_spark` one that is started for each application."""
    return {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connect_server.connection),
        "AIRFLOW_CONN_COLD_SPARK": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }


@pytest.fixture(scope="session")
def statsd():
    """Where Airflow sends its metrics."""
    with statsd_server() as server:
        yield server


@pytest.fixture(scope="session")
def stack(broker, postgres, spark_connections, statsd, tmp_path_factory):
    """An Airflow with its metadata in a PostgreSQL, as in production.

    On SQLite a backfill of many runs is created while the scheduler reads: "database is locked",
    the page gets a 503, and the scheduler may end over a run that was rolled back.
    """
    database = postgres.create_database("airflow").render_as_string(hide_password=False)
    running = Stack.build(
        tmp_path_factory.mktemp("stack"),
        database_url=database,
        settings={**spark_connections, **statsd.settings},
        broker=broker,
        users=USERS,
    ).start()
    yield running
    running.stop()


@pytest.fixture(scope="session")
def client(stack) -> AirflowClient:
    """Logged in."""
    return stack.airflow.client()


@pytest.fixture
def airflow_harness(stack, tmp_path, request):
    """Names of its own on the broker; a module of Airflow's tests calls it `harness`."""
    return AirflowHarness(stack, tmp_path, request.node.name.replace("_", "-")[5:40])
