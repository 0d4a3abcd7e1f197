"""Runs with a connection to Azure's store, and Google's: through a warm driver, as users have it.

What stands in for the stores is real software of other people (`devstack.cloud_emulators`).
"""

import json
import os
from datetime import UTC, datetime

import pytest
from deltalake import DeltaTable

from devstack.command_line import finished, tideline
from tests.faults.processes import processes
from tests.worlds.drivers import drivers, jvms
from tests.worlds.object_stores import BUCKET, left_in

pytestmark = pytest.mark.slow
REWIND = ("--to-run", "one", "--reason", "test", "--json")
KEY = "-----BEGIN PRIVATE KEY-----\ncanary-of-googles-key\n-----END PRIVATE KEY-----\n"


@pytest.fixture(params=["azurite", "azurite by a SAS", "fake_gcs"])
def place(request, monkeypatch):
    """A bucket, its connection `lake`, and what is secret in it."""
    name, _, is_signed = request.param.partition(" ")
    bucket = request.getfixturevalue(name).bucket(f"runs-{name}-{len(is_signed)}")
    connection = bucket.store.connection(bucket.proxy.endpoint)
    secret = connection.pop("password") if is_signed else connection.get("password")
    if is_signed:
        secret = bucket.store.sas(BUCKET, "racwdl", datetime(2099, 1, 1, tzinfo=UTC))
        connection["extra"] = {"sas_token": secret}
    if bucket.store.kind == "google":
        connection["extra"]["keyfile_dict"]["private_key"] = KEY
        secret = "canary-of-googles-key"
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    return bucket, secret


def in_store(harness, bucket, **changes):
    return harness.stream_file(
        table={"uri": bucket.uri(harness.name), "connection": "lake"},
        spark={"keep_warm_seconds": 300},
        **changes,
    )


def test_runs_land_replay_and_are_proven(harness, sockets, place):
    """Everything goes through the connection, and its secret is nowhere to be seen."""
    bucket, secret = place
    harness.create(partitions=2)
    harness.send(100)
    harness.send(50, partition=1)
    file = in_store(harness, bucket)
    for _ in range(2):  # the same run twice: its plan is replayed
        status, answer, errors = finished(tideline("run", file, "--run-id", "one", "--json"))
        assert (status, answer["rows"]) == (0, 150), errors
    harness.send(10)
    status, answer, errors = finished(tideline("run", file, "--json"))
    assert (status, answer["rows"]) == (0, 10), errors
    status, answer, errors = finished(tideline("audit", file, "--json"))
    assert (status, answer["clean"]) == (0, True), errors
    table = DeltaTable(bucket.uri(harness.name), storage_options=bucket.options)
    assert len(table.to_pyarrow_table(columns=["offset"])) == 160
    status, answer, errors = finished(tideline("maintain", file, "--json"))
    assert status == 0, errors
    status, answer, errors = finished(tideline("rewind", file, *REWIND))
    assert status == 0, errors
    status, answer, errors = finished(tideline("run", file, "--json"))
    assert (status, answer["rows"]) == (0, 10), errors
    assert {request.is_spark for request in bucket.proxy.requests} == {True, False}
    is_nowhere(secret, sockets)


def is_nowhere(secret, sockets):
    """In no argument of any process, and in no log of the driver's."""
    assert drivers(sockets)
    assert jvms(sockets)
    assert not [pid for pid, _, command in processes() if any(secret in part for part in command)]
    logs = [file for file in sockets.iterdir() if file.suffix == ".log"]
    assert logs
    assert not any(secret in file.read_text(errors="replace") for file in logs)


def test_a_key_that_is_wrong_ends_before_spark(harness, sockets, place, monkeypatch):
    """Exit status 2, by name, and nothing was made."""
    bucket, _ = place
    harness.create(partitions=1)
    harness.send(10)
    connection = json.loads(os.environ["AIRFLOW_CONN_LAKE"])
    if bucket.store.kind == "azure":
        connection |= {"password": "d3Jvbmc=", "extra": {}}
    else:
        connection["extra"]["keyfile_dict"] = {"client_email": "x"}
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps(connection))
    status, answer, errors = finished(tideline("run", in_store(harness, bucket), "--json"))
    assert (status, "connection lake" in answer["message"]) == (2, True), (answer, errors)
    assert drivers(sockets) == []
    assert left_in(bucket, harness.name) == []
