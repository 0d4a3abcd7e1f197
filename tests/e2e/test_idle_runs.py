"""A Dag run with nothing to do starts two processes; whatever is cleared then, it stays right."""

from datetime import UTC, datetime, timedelta

import pytest

from devstack.airflow_harness import started, states
from devstack.process import wait_until
from tests.worlds.streams import STEPS, head, table_version
from tideline.wiring import open_ledger

WORKED = STEPS[:2]
IDLE = {task: "success" if task in WORKED else "skipped" for task in STEPS}


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


def processes(client, dag_id, run_id):
    """The tasks that had a process of their own."""
    return {name for name, task in client.tasks(dag_id, run_id).items() if task["pid"] is not None}


def test_only_tasks_with_work_have_a_process(harness, client):
    """Landing, idle, an idle window of the past, plan_only, and an idle run that finds a reset."""
    harness.create(partitions=1)
    harness.send(20)
    stream = started(harness, client, "sparing")
    found = {}
    window = {"from": "2020-01-01T00:00:00Z", "to": "2020-01-02T00:00:00Z"}
    asked = {"lands": {}, "idle": {}, "window": window, "asks": {"plan_only": True}}
    for run_id, conf in asked.items():
        client.trigger("sparing", run_id, conf)
        assert client.wait_for_run("sparing", run_id) == "success"
        found[run_id] = processes(client, "sparing", run_id)
    assert found["lands"] == set(STEPS) - {"resolve_reset"}
    assert states(client, "sparing", "lands")["resolve_reset"] == "skipped"
    for run_id in ("idle", "window", "asks"):
        assert (found[run_id], states(client, "sparing", run_id)) == (set(WORKED), IDLE)
    records = {run_id: open_ledger(stream).find_run(run_id) for run_id in asked}
    assert records["asks"] is None
    assert records["idle"].status == records["window"].status == "nothing_to_do"

    harness.delete()
    harness.create(partitions=1)
    before = head(stream)
    client.trigger("sparing", "reset")
    assert client.wait_for_run("sparing", "reset") == "failed"
    after = states(client, "sparing", "reset")
    assert (after["detect_earliest_reset"], after["ingest_ranges"]) == ("failed", "upstream_failed")
    assert "topic_recreated" in client.log("sparing", "reset", "detect_earliest_reset")
    assert head(stream) == before


@pytest.mark.slow
def test_an_idle_run_that_is_cleared_stays_idle(harness, client):
    """From each task on, while records are waiting: the run's own plan is to read nothing (R1)."""
    harness.create(partitions=1)
    harness.send(10)
    stream = started(harness, client, "cleared-idle")
    for run_id in ("lands", "idle"):
        client.trigger("cleared-idle", run_id)
        assert client.wait_for_run("cleared-idle", run_id) == "success"
    before, version = head(stream), table_version(stream)
    harness.send(7)
    for task in STEPS:
        client.clear("cleared-idle", "idle", [task])
        assert client.wait_for_run("cleared-idle", "idle") == "success", task
        assert states(client, "cleared-idle", "idle") == IDLE, task
        assert (head(stream), table_version(stream)) == (before, version), task

    for task in ("detect_earliest_reset", "resolve_reset"):
        client.clear("cleared-idle", "lands", [task])
        assert client.wait_for_run("cleared-idle", "lands") == "success", task
        assert states(client, "cleared-idle", "lands") == dict.fromkeys(STEPS, "success") | {
            "resolve_reset": "skipped"
        }
        assert head(stream) == before
    client.trigger("cleared-idle", "next")
    assert client.wait_for_run("cleared-idle", "next") == "success"
    assert head(stream) == {(harness.topic(), 0): 17}


@pytest.mark.slow
def test_a_backfill_of_intervals_without_records_starts_two_processes_each(harness, client):
    """Airflow's own backfill, and the same once more with `completed`."""
    harness.create(partitions=1)
    harness.send(3)
    stream = started(harness, client, "idle-days", schedule="0 0 * * *")
    # The newest interval's run moves the head: who is planned at that moment has to run again.
    wait_until(lambda: client.runs("idle-days"), "the scheduler makes no run", 60, 0.5)
    live = client.runs("idle-days")[0]["dag_run_id"]
    assert client.wait_for_run("idle-days", live) == "success"
    first = datetime(datetime.now(UTC).year, 1, 1, tzinfo=UTC) - timedelta(days=2)
    for reprocess in ("none", "completed"):
        backfill = client.backfill(
            "idle-days", first, first + timedelta(days=1), reprocess=reprocess
        )
        client.wait_for_backfill(backfill)
        runs = [r["dag_run_id"] for r in client.runs("idle-days") if r["run_type"] == "backfill"]
        assert len(runs) == 2
        for run_id in runs:
            assert states(client, "idle-days", run_id) == IDLE
            assert processes(client, "idle-days", run_id) == set(WORKED)
            assert open_ledger(stream).find_run(run_id).status == "nothing_to_do"
