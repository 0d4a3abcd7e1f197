"""A real broker and a real Airflow, and streams in the folder that it parses."""

import json

import pytest

from devstack.airflow_client import AirflowClient
from devstack.connect_server import ConnectServer
from devstack.stack import Stack
from tests.harness import StreamHarness


@pytest.fixture(scope="session")
def spark_connections(tmp_path_factory):
    """A warm Spark by default, and by `cold_spark` one that is started for each application."""
    server = ConnectServer(tmp_path_factory.mktemp("connect"), "local[2]").start()
    yield {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(server.connection),
        "AIRFLOW_CONN_COLD_SPARK": json.dumps({"conn_type": "spark", "host": "local[2]"}),
    }
    server.stop()


@pytest.fixture(scope="session")
def stack(spark_connections, tmp_path_factory):
    """A real broker and a real Airflow."""
    found = Stack.build(tmp_path_factory.mktemp("stack"), settings=spark_connections).start()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def stack_on_postgres(postgres, spark_connections, tmp_path_factory):
    """The same with a PostgreSQL for Airflow, as in production.

    On SQLite a backfill of many runs is created while the scheduler reads: "database is locked",
    the page gets a 503, and the scheduler may end over a run that was rolled back.
    """
    database = postgres.create_database("airflow").render_as_string(hide_password=False)
    folder = tmp_path_factory.mktemp("stack")
    found = Stack.build(folder, database_url=database, settings=spark_connections).start()
    yield found
    found.stop()


@pytest.fixture(scope="session")
def client(stack) -> AirflowClient:
    """Logged in."""
    return stack.airflow.client()


class AirflowHarness(StreamHarness):
    """Streams in the folder that Airflow parses, with the stack's own connection."""

    connection = "kafka_default"

    def __init__(self, stack, folder, name):
        super().__init__(stack.broker, folder, name)
        self.streams = stack.streams

    def stream_file(self, *args, **kwargs):
        """Without retries: a failure should be seen at once."""
        kwargs.setdefault("airflow", {"retries": 0})
        path = super().stream_file(*args, **kwargs)
        target = self.streams / path.name
        target.write_text(path.read_text())
        return target


@pytest.fixture
def airflow_harness(stack, tmp_path, request):
    """Names of its own on the stack's broker; a module of Airflow's tests calls it `harness`."""
    return AirflowHarness(stack, tmp_path, request.node.name.replace("_", "-")[5:40])


def started(harness, client, name, **changes):
    """A stream whose Dag is parsed and active."""
    stream = harness.stream(name=name, **changes)
    client.wait_for_dag(name)
    client.pause(name, False)
    return stream


def states(client, dag_id, run_id):
    return {name: t["state"] for name, t in client.tasks(dag_id, run_id).items()}
