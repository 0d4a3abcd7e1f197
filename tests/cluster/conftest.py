"""A cluster, a store and a private installation, each started once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devstack.harness import StreamHarness
from devstack.object_store import S3Proxy
from devstack.spark_cluster import SparkCluster
from devstack.yarn_cluster import YarnCluster
from tests.cluster.cluster_case import BUCKET, STARTED, ClusterCase
from tests.cluster.installed import Installed
from tests.worlds.airflow_fixtures import airflow_harness, client, stack, statsd

__all__ = ["airflow_harness", "client", "stack", "statsd"]


@pytest.fixture(autouse=True)
def commands_end() -> Iterator[None]:
    """A test that fails leaves no run behind, nor the driver that it has started."""
    yield
    for process in STARTED:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    STARTED.clear()


@pytest.fixture(scope="session")
def lake_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Proxy]:
    """A store with the bucket."""
    server = S3Proxy(tmp_path_factory.mktemp("lake"))
    server.start()
    server.create_bucket(BUCKET)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """What the runs are started from."""
    return Installed(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="session")
def spark_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A master and two workers, who are other users."""
    if os.geteuid() != 0:
        pytest.skip("only root can start workers of another user, who share no disk with us")
    cluster = SparkCluster(tmp_path_factory.mktemp("spark-cluster")).start()
    yield cluster
    cluster.stop()


@pytest.fixture(scope="session")
def spark_connections(
    lake_store: S3Proxy, installed: Installed, spark_cluster: SparkCluster
) -> dict[str, str]:
    """Of Airflow's services: the private installation, the cluster and the store."""
    return {
        **installed.variables,
        **spark_cluster.settings("airflow"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(installed.folder / "plugins"),
        "AIRFLOW_CONN_STORE": json.dumps(lake_store.connection()),
        "AIRFLOW_CONN_CLUSTER": json.dumps(spark_cluster.connection),
    }


@pytest.fixture
def cluster_case(
    harness: StreamHarness, lake_store: S3Proxy, installed: Installed, spark_cluster: SparkCluster
) -> ClusterCase:
    """A stream of its own on the cluster."""
    settings = spark_cluster.settings(harness.name)
    return ClusterCase(harness, lake_store, installed, spark_cluster.connection, settings)


@pytest.fixture(scope="session")
def private_paths(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """What a driver here has, and what no other machine may need."""
    base = tmp_path_factory.getbasetemp()
    return [base, installed.folder, installed.folder / "spark_jobs/ingest_range.py"]


@pytest.fixture(scope="session")
def yarn_cluster(
    lake_store: S3Proxy, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[YarnCluster]:
    """A ResourceManager, and a NodeManager who is another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can start a NodeManager of another user, who shares no disk with us")
    cluster = YarnCluster(tmp_path_factory.mktemp("yarn"), lake_store, BUCKET).start()
    yield cluster
    cluster.stop()
