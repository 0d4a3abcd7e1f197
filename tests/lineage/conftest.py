"""An Airflow that traces, with OpenLineage's provider, beside the packages of all other tests."""

import json
import os
import sys
from pathlib import Path

import pytest

from tests.lineage.spans import collector
from tests.worlds.airflow_fixtures import airflow_harness, client, stack, statsd

__all__ = ["airflow_harness", "client", "stack", "statsd"]
ROOT = Path(__file__).parents[2]
PROVIDER = ROOT / ".lineage"
sys.path.append(str(PROVIDER))


@pytest.fixture(scope="session")
def events(tmp_path_factory):
    """The file that the provider writes its events into."""
    return tmp_path_factory.mktemp("lineage") / "events.jsonl"


@pytest.fixture(scope="session")
def traces():
    """The address that spans are sent to, and the spans."""
    with collector() as found:
        yield found


@pytest.fixture(scope="session")
def spark_connections(connect_server, events, traces):
    """Airflow's settings: a warm Spark, and where events and spans go."""
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    return {
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connect_server.connection),
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "AIRFLOW__OPENLINEAGE__NAMESPACE": "tests",
        "AIRFLOW__TRACES__OTEL_ON": "True",
        "OTEL_TRACES_EXPORTER": "otlp_proto_http",
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": traces[0],
        "PYTHONPATH": os.pathsep.join([str(ROOT / "plugins"), str(PROVIDER)]),
    }
