"""A Hive metastore, and clients beside the packages of all other tests."""

import json
import sys
from pathlib import Path

import pytest

from devstack.metastore import Metastore

sys.path.append(str(Path(__file__).parents[2] / ".catalog"))


@pytest.fixture(scope="session")
def metastore(tmp_path_factory):
    server = Metastore(tmp_path_factory.mktemp("metastore")).start()
    yield server
    server.stop()


@pytest.fixture
def hive(metastore, monkeypatch):
    """Its connection is named `hive`."""
    monkeypatch.setenv("AIRFLOW_CONN_HIVE", json.dumps(metastore.connection))
    return metastore
