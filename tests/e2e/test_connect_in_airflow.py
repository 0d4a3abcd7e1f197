"""A stream whose Spark connection is a warm server that Airflow's own database names."""

import json

import pytest
from airflow_client.client.api.connection_api import ConnectionApi
from airflow_client.client.models.connection_body import ConnectionBody

from devstack.airflow_harness import started
from tests.worlds.streams import table_rows


@pytest.mark.slow
def test_a_run_and_its_clearing_use_the_warm_server(airflow_harness, client, spark_connections):
    """The connection is Airflow's own, kept in its database; nobody starts a JVM."""
    harness = airflow_harness
    where = json.loads(spark_connections["AIRFLOW_CONN_SPARK_DEFAULT"])
    client.api(ConnectionApi).post_connection(ConnectionBody(connection_id="warm", **where))
    harness.create(partitions=1)
    harness.send(100)
    stream = started(harness, client, "warm", spark={"connection": "warm"})
    client.trigger("warm", "one")
    assert client.wait_for_run("warm", "one") == "success"
    client.clear("warm", "one", ["ingest_ranges"])
    assert client.wait_for_run("warm", "one") == "success"
    assert client.tasks("warm", "one")["ingest_ranges"]["try_number"] == 2
    log = client.log("warm", "one", "ingest_ranges")
    assert "spark-submit" not in log
    assert "Spark driver" not in log
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 100
