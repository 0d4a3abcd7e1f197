"""Dag runs whose Spark connection is a standalone cluster, by Airflow's own provider."""

import pytest

from devstack.process import wait_until
from tests.cluster.cluster_case import ClusterCase

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture
def airflow_case(airflow_harness, lake_store, installed, spark_cluster, spark_connections):
    """A stream whose Dag a real Airflow runs; the oracle asks by the command line."""
    return ClusterCase(
        airflow_harness, lake_store, installed, spark_cluster.connection, spark_connections
    )


@pytest.fixture
def dag_run(client):
    """Waits for a run's good end."""

    def ends_well(dag_id, run_id):
        assert client.wait_for_run(dag_id, run_id, 600) == "success"

    return ends_well


def follow(case, client, dag_id):
    case.follow(partitions=2, count=200, name=dag_id, on_incident="proceed")  # or runs queue up
    client.wait_for_dag(dag_id)
    client.pause(dag_id, False)


def test_a_dag_run_lands_and_replays(airflow_case, client, dag_run, spark_cluster):
    """The provider's spark-submit, with the connection's master."""
    case = airflow_case
    follow(case, client, "orders")
    client.trigger("orders", "one")
    dag_run("orders", "one")
    case.judge("a Dag run")
    assert f"--master {spark_cluster.master}" in client.log("orders", "one", "ingest_ranges")
    client.clear("orders", "one", ["ingest_ranges"])
    dag_run("orders", "one")
    case.judge("its task, cleared")


def test_dag_runs_of_a_backfill_beside_live(airflow_case, client, dag_run):
    """A task that is refused the lease waits for it, and uses up no try: the Dag has no retries."""
    case = airflow_case
    follow(case, client, "beside")
    place = {"topic": case.topic, "partition": 0}
    client.trigger("beside", "back", {"ranges": [{**place, "start_offset": 0, "end_offset": 150}]})
    # The first plan of a stream makes its head: one that is made meanwhile has to be tried again.
    wait_until(
        lambda: client.tasks("beside", "back")["plan_offset_ranges"]["state"] == "success",
        "the backfill has no plan",
        120,
    )
    client.trigger("beside", "live")
    dag_run("beside", "back")
    dag_run("beside", "live")
    tasks = [client.tasks("beside", run_id)["ingest_ranges"] for run_id in ("back", "live")]
    assert [task["try_number"] for task in tasks] == [1, 1]
    logs = [client.log("beside", run_id, "ingest_ranges") for run_id in ("back", "live")]
    assert any("the writer lease is held by process" in log for log in logs)
    case.judge("Dag runs, a backfill beside live")
