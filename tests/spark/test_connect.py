"""Runs through a warm Spark Connect server: which server, and what if it is away.

Tests marked `connect_too` elsewhere in this folder run through one as well; `make test-connect`
runs them all like this.
"""

import json

import pytest

from devstack.process import free_ports
from tests.harness import head, table_rows
from tideline.errors import ServiceAway
from tideline.launch.connect import SparkConnect


@pytest.fixture
def spark(connect_spark):
    return connect_spark


def test_a_server_that_is_away_may_be_tried_again(harness, spark):
    """Said at once, and nothing moved."""
    harness.create(partitions=1)
    harness.send(10)
    stream = harness.stream()
    away = SparkConnect(f"sc://127.0.0.1:{free_ports(1)[0]}")
    with pytest.raises(ServiceAway, match="no Spark Connect server"):
        harness.run(stream, "one", away)
    assert harness.run(stream, "one", spark).status == "done"
    assert len(table_rows(stream)) == 10


def test_the_connection_s_type_chooses_the_server(harness, spark, monkeypatch):
    """Nothing is started for a connection of type spark_connect."""
    monkeypatch.setenv("AIRFLOW_CONN_WARM", json.dumps(spark.server.connection))
    monkeypatch.setattr("tideline.launch.launcher.SparkSubmit", None)
    monkeypatch.setattr("tideline.launch.launcher.LocalDriver", None)
    harness.create(partitions=1)
    harness.send(10)
    stream = harness.stream(spark={"connection": "warm"})
    assert harness.run(stream, "one", None).status == "done"
    assert list(head(stream).values()) == [10]
