"""A stream whose Spark connection is a warm server, under a real Airflow."""

import pytest

from tests.airflow_world import started
from tests.real import table_rows
from tideline.embedded.connect_server import ConnectServer


@pytest.mark.slow
def test_a_run_and_its_clearing_use_the_warm_server(airflow_world, client, tmp_path):
    """The connection is Airflow's own, kept in its database; nobody starts a JVM."""
    world = airflow_world
    server = ConnectServer(tmp_path, "local[2]").start()
    try:
        where = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": server.port}
        client.call("POST", "/connections", json={"connection_id": "warm", **where})
        world.create(partitions=1)
        world.send(100)
        stream = started(world, client, "warm", spark={"connection": "warm"})
        client.trigger("warm", "one")
        assert client.wait_for_run("warm", "one") == "success"
        client.clear("warm", "one", ["ingest_ranges"])
        assert client.wait_for_run("warm", "one") == "success"
    finally:
        server.stop()
    assert client.tasks("warm", "one")["ingest_ranges"]["try_number"] == 2
    assert "spark-submit" not in client.log("warm", "one", "ingest_ranges")
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 100
