"""Runs through a warm Spark Connect server: which server, and what if it is away.

`make test-connect` runs everything else in this folder through one as well.
"""

import json
from pathlib import Path

import psutil
import pytest

from devstack.process import free_ports
from tests.worlds.streams import head, is_clean, table_rows
from tideline.errors import ServiceAway, SparkRefused
from tideline.launch.connect import SparkConnect


@pytest.fixture
def spark(connect_spark):
    return connect_spark


@pytest.mark.slow  # a minute of Spark Connect's own patience
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


@pytest.mark.slow  # half a minute beside other parts
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
    assert [offset for *_, offset in table_rows(stream)] == list(range(10))
    assert is_clean(harness, stream)


def test_the_server_is_this_machine_s_and_nothing_else_listens(spark):
    """Whoever reaches it runs jobs beside every stream's secrets; its pages would show them."""
    server = spark.server.server
    found = [psutil.Process(server.pid), *psutil.Process(server.pid).children(recursive=True)]
    processes = [process for process in found if process.status() != psutil.STATUS_ZOMBIE]
    listening = [
        (socket.laddr.ip.removeprefix("::ffff:"), socket.laddr.port)
        for process in processes
        for socket in process.net_connections("tcp")
        if socket.status == psutil.CONN_LISTEN
    ]
    assert ("127.0.0.1", spark.server.port) in listening
    assert {ip for ip, _ in listening} == {"127.0.0.1"}
    assert not any(spark.server.token in " ".join(p.cmdline()) for p in processes)


@pytest.mark.parametrize("password", [None, "another"])
def test_a_server_refuses_another_token_and_the_connection_is_named(
    harness, spark, monkeypatch, password
):
    """Bad input: nothing that passes."""
    where = {**spark.server.connection, "password": password}
    monkeypatch.setenv("AIRFLOW_CONN_WARM", json.dumps(where))
    harness.create(partitions=1)
    harness.send(10)
    stream = harness.stream(spark={"connection": "warm"})
    with pytest.raises(SparkRefused, match=r"connection warm: .*refuses the token"):
        harness.run(stream, "one", None)
    assert table_rows(stream) == []


def test_the_page_starts_a_server_as_closed_as_ours():
    """Its command is what people copy."""
    text = (Path(__file__).parents[2] / "docs/spark.md").read_text()
    (command,) = [part for part in text.split("```") if "SparkConnectServer" in part]
    for needed in (
        "spark.connect.grpc.binding.address=127.0.0.1",
        "SPARK_CONNECT_AUTHENTICATE_TOKEN",
        "spark.ui.enabled=false",
    ):
        assert needed in command
