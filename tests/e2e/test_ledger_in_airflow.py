"""A stream whose ledger is in Airflow's own database, under a real Airflow."""

import os
from contextlib import contextmanager
from datetime import UTC, datetime

import pytest
from airflow_client.client.api.asset_api import AssetApi
from airflow_client.client.api.asset_state_store_api import AssetStateStoreApi
from airflow_client.client.api.job_api import JobApi

from devstack.airflow_harness import AirflowHarness, started, states
from devstack.stack import Stack
from tests.worlds.streams import head, table_rows, table_version
from tideline.wiring import open_ledger


@pytest.fixture
def harness(airflow_harness, stack):
    with ledger_of(stack):
        yield airflow_harness


@contextmanager
def ledger_of(stack):
    """This process finds the ledger as the tasks do."""
    os.environ["AIRFLOW_CONN_TIDELINE_LEDGER"] = stack.airflow.ledger_connection
    try:
        yield
    finally:
        del os.environ["AIRFLOW_CONN_TIDELINE_LEDGER"]


def land_and_clear(harness, client, name):
    """Two runs and a cleared one."""
    harness.create(partitions=2)
    harness.send(100)
    harness.send(60, partition=1)
    stream = started(harness, client, name, ledger="airflow")
    client.trigger(name, "first")
    assert client.wait_for_run(name, "first") == "success"
    assert states(client, name, "first")["advance_offsets"] == "success"
    assert len(table_rows(stream)) == 160
    harness.send(5)
    client.trigger(name, "second")
    assert client.wait_for_run(name, "second") == "success"
    before = head(stream)
    assert before == {(harness.topic(), 0): 105, (harness.topic(), 1): 60}
    version = table_version(stream)
    client.clear(name, "first", ["ingest_ranges"])
    assert client.wait_for_run(name, "first") == "success"
    assert client.tasks(name, "first")["ingest_ranges"]["try_number"] == 2
    assert head(stream) == before
    assert table_version(stream) == version + 1
    assert len(set(table_rows(stream))) == len(table_rows(stream)) == 165
    assert harness.audit(stream)[0].clean
    return stream


def test_a_stream_is_landed_and_cleared_with_its_ledger_in_airflow(harness, client):
    """Out of the box: the stack's database has the tables and the connection."""
    stream = land_and_clear(harness, client, "inside")
    ledger = open_ledger(stream)
    assert ledger.store.location == "tideline_ledger: inside"
    assert [r.run_id for r in ledger.closed_runs()] == ["second", "first"]
    assert not (harness.folder / "lake" / "inside.ledger").exists()
    assert shown_on_asset(client, "tideline/inside") == {
        "next_offsets": {f"{harness.topic()}-0": 105, f"{harness.topic()}-1": 60},
        "offset_lag": 0,
        "partitions": 2,
    }


def shown_on_asset(client, name):
    """What the asset's page says, as Airflow's API has it."""
    (asset,) = client.api(AssetApi).get_assets(name_pattern=name).assets
    store = client.api(AssetStateStoreApi).list_asset_state_store(asset.id)
    return {entry.key: entry.value for entry in store.asset_state_store}


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_it_works_on_postgresql_with_two_schedulers(postgres, tmp_path):
    """Airflow's and the ledger's tables in one database, as in production."""
    database = postgres.create_database(f"airflow-{datetime.now(UTC):%H%M%S%f}")
    shown = database.render_as_string(hide_password=False)
    stack = Stack.build(tmp_path / "stack", database_url=shown, schedulers=2).start()
    try:
        client = stack.airflow.client()
        harness = AirflowHarness(stack, tmp_path, "two")
        with ledger_of(stack):
            land_and_clear(harness, client, "two")
        alive = client.api(JobApi).get_jobs(job_type="SchedulerJob", is_alive=True)
        assert alive.total_entries == 2
    finally:
        stack.stop()
