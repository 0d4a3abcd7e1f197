"""One Airflow for this folder, and the warm Spark that its streams use."""

import json

import pytest

from tests.worlds.airflow_fixtures import airflow_harness, client, spark_connections, stack, statsd

__all__ = ["airflow_harness", "client", "spark_connections", "stack", "statsd"]


@pytest.fixture
def spark(connect_spark):
    """The server that Airflow's streams use as well: no second JVM."""
    return connect_spark


@pytest.fixture
def warm_spark(harness, connect_server, monkeypatch):
    """Commands of this test land through the warm server: starting Spark is not their subject."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(connect_server.connection))
