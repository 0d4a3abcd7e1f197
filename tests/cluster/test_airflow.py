"""Dag runs whose Spark connection is a standalone cluster, by Airflow's own provider."""

import json

import pytest

from tests.cluster.cluster_case import ClusterCase

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def airflow_case(airflow_harness, lake_store, installed, spark_cluster, spark_connections):
    """A stream whose Dag a real Airflow runs; the oracle asks by the command line."""
    return ClusterCase(
        airflow_harness, lake_store, installed, spark_cluster.connection, spark_connections
    )


def test_dag_runs_land_replay_and_backfill_beside_live(airflow_case, client, spark_cluster):
    """A task that is refused the lease waits for it, and uses up no try: the Dag has no retries."""
    case = airflow_case
    case.follow(partitions=2, count=200, on_incident="proceed")  # or its runs queue up
    client.wait_for_dag("orders")
    client.pause("orders", False)
    client.trigger("orders", "one")
    assert client.wait_for_run("orders", "one") == "success"
    case.judge("a Dag run")
    log = client.log("orders", "one", "ingest_ranges")
    assert f"--master spark://{spark_cluster.connection['host'].split('//')[1]}" in log
    client.clear("orders", "one", ["ingest_ranges"])
    assert client.wait_for_run("orders", "one") == "success"
    case.judge("its task, cleared")
    case.send(2, 100)
    place = {"topic": case.topic, "partition": 0}
    window = {"ranges": [{**place, "start_offset": 0, "end_offset": 150}]}
    client.trigger("orders", "live")
    client.trigger("orders", "back", window)
    for run_id in ("live", "back"):
        assert client.wait_for_run("orders", run_id, 600) == "success"
    case.judge("Dag runs, a backfill beside live")
    assert len(spark_cluster.tasks("airflow")) == 4
    print(json.dumps(client.tasks("orders", "back")["ingest_ranges"]["try_number"]))
