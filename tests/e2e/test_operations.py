"""Audits and rewinds under a real Airflow, and a rewind killed in a shell."""

import pytest
from deltalake import DeltaTable

from devstack.airflow_harness import started, states
from devstack.command_line import finished, tideline
from devstack.process import wait_until
from tests.worlds.streams import head, table_rows
from tideline.wiring import open_ledger

GATED = """
from airflow.sdk import DAG, Asset, task
from tideline.airflow.operations import AuditStream

with DAG(dag_id="{name}_gate", schedule=None) as gate:
    @task
    def publish():
        return "published"

    AuditStream(task_id="audited", stream="{name}") >> publish()

with DAG(dag_id="{name}_behind", schedule=Asset("tideline/{name}/audited")) as behind:
    @task
    def build():
        return "built"

    build()
"""


@pytest.fixture
def harness(airflow_harness):
    return airflow_harness


@pytest.fixture
def dag_file(stack):
    """Put a Dag of a user's own into Dags' folder, and take it away again."""
    written = []

    def write(name, text):
        path = stack.dags / f"{name}.py"
        path.write_text(text)
        written.append(path)

    yield write
    for path in written:
        path.unlink()


def runs_once(client, dag_id, run_id, conf):
    """Trigger a Dag and wait for its end."""
    client.trigger(dag_id, run_id, conf)
    return client.wait_for_run(dag_id, run_id)


def test_an_audit_gates_what_comes_after_it(harness, client, spark, dag_file):
    """Clean: the task after it runs, and Dags scheduled on the audit. Damaged: neither."""
    harness.create(partitions=1)
    harness.send(30)
    stream = started(harness, client, "gated")
    harness.run(stream, "lands", spark)
    dag_file("gated_gate", GATED.format(name="gated"))
    for dag_id in ("gated_gate", "gated_behind"):
        client.wait_for_dag(dag_id)
        client.pause(dag_id, False)
    assert runs_once(client, "gated_gate", "clean", {}) == "success"
    assert states(client, "gated_gate", "clean") == {"audited": "success", "publish": "success"}
    (event,) = client.asset_events("gated_gate")
    assert (event["extra"]["rows"], event["extra"]["table_version"]) == (30, 1)
    wait_until(lambda: client.runs("gated_behind"), "no run behind the audit", 60)

    DeltaTable(stream.table.uri).delete("offset >= 5 AND offset < 8")
    assert runs_once(client, "gated_gate", "damaged", {}) == "failed"
    assert states(client, "gated_gate", "damaged")["publish"] == "upstream_failed"
    assert f"missing: {harness.topic()}-0 [5, 8)" in client.log("gated_gate", "damaged", "audited")
    assert len(client.runs("gated_behind")) == 1

    client.wait_for_dag("tideline_audit")
    client.pause("tideline_audit", False)
    assert runs_once(client, "tideline_audit", "by-hand", {"stream": "gated"}) == "failed"
    log = client.log("tideline_audit", "by-hand", "audit_stream")
    assert "NOT CLEAN" in log


@pytest.mark.slow  # test_rights.py rewinds by the form, too
def test_a_rewind_needs_the_stream_s_name_twice(harness, client, spark):
    """A wrong one moves nothing; with the right one the later run is undone, once and on record."""
    harness.create(partitions=1)
    stream = started(harness, client, "back")
    for run_id in ("one", "two"):
        harness.send(20)
        harness.run(stream, run_id, spark)
    before = head(stream)
    client.wait_for_dag("tideline_rewind")
    client.pause("tideline_rewind", False)
    form = {"stream": "back", "to_run": "one", "reason": "wrong topic", "confirm": "orders"}
    assert runs_once(client, "tideline_rewind", "wrong", form) == "failed"
    log = client.log("tideline_rewind", "wrong", "rewind_stream")
    assert "confirm: got 'orders'; allowed: 'back'" in log
    assert (head(stream), len(table_rows(stream))) == (before, 40)

    assert runs_once(client, "tideline_rewind", "right", {**form, "confirm": "back"}) == "success"
    assert (head(stream), len(table_rows(stream))) == ({(harness.topic(), 0): 20}, 20)
    (done,) = open_ledger(stream).rewinds()
    assert (done.undone_runs, done.reason) == (("two",), "wrong topic")
    assert done.by != "airflow"
    harness.run(stream, "three", spark)
    client.clear("tideline_rewind", "right", ["rewind_stream"])
    assert client.wait_for_run("tideline_rewind", "right") == "success"
    log = client.log("tideline_rewind", "right", "rewind_stream", 2)
    assert "To rewind once more, trigger a new run" in log
    assert (head(stream), len(table_rows(stream))) == (before, 40)
    found, findings = harness.audit(stream)
    assert (found.clean, findings) == (True, ())


@pytest.mark.slow
@pytest.mark.usefixtures("warm_spark")
def test_a_rewind_killed_at_every_boundary_ends_in_the_same_state(harness, client, spark):
    """`kill -9` at each; the same command goes on, and then there is nothing left to do."""
    harness.create(partitions=1)
    stream = harness.stream(name="killed")
    for run_id in ("one", "two"):
        harness.send(20)
        harness.run(stream, run_id, spark)
    command = ("rewind", harness.streams / "killed.yaml", "--to-run", "one", "--reason", "r")
    for place in ("begun", "removed", "finished"):
        point = {"TIDELINE_FAILPOINT": f"rewind:{place}:kill"}
        status, _, errors = finished(tideline(*command, env=point))
        assert status == -9, errors
        if place != "finished":
            again = tideline("run", harness.streams / "killed.yaml", "--json")
            status, answer, _ = finished(again)
            assert (status, answer["status"]) == (3, "halted")
            assert "same tideline rewind command" in answer["message"]
    status, answer, errors = finished(tideline(*command, "--json"))
    assert (status, answer["status"], answer["removed_rows"]) == (0, "nothing_to_do", 0), errors
    assert answer["head"][0]["next_offset"] == 20
    status, ledger, _ = finished(tideline("ledger", harness.streams / "killed.yaml", "--json"))
    (done,) = ledger["rewinds"]
    assert (done["removed_rows"], done["undone_runs"]) == (20, ["two"])
    assert done["finished_at"] is not None
    status, _, _ = finished(tideline("audit", harness.streams / "killed.yaml", "--json"))
    assert status == 0


TOLD = """
from pathlib import Path

from tideline.airflow.dags import stream_dags


def tell(context):
    task = context["task_instance"]
    text = f"{{task.dag_id}} {{task.run_id}}: {{task.task_id}}: {{context['exception']}}"
    Path("{told}").write_text(text)


dags = stream_dags("{folder}")
for dag in dags.values():
    for task in dag.tasks:
        task.on_failure_callback = [tell]
globals().update(dags)
"""


@pytest.mark.slow
def test_a_callback_of_ones_own_is_told_what_halted(client, dag_file, tmp_path):
    """As docs/observability.md has it."""
    folder, told = tmp_path / "streams", tmp_path / "told"
    folder.mkdir()
    (folder / "tells.yaml").write_text(
        "stream: tells\nkafka: {connection: nobody_knows_it, topics: [t]}\n"
        f"table: {{uri: {tmp_path}/lake}}\nairflow: {{retries: 0}}\n"
    )
    dag_file("tells", TOLD.format(told=told, folder=folder))
    client.wait_for_dag("tells")
    client.pause("tells", False)
    assert runs_once(client, "tells", "one", {}) == "failed"
    wait_until(told.exists, "the callback has told nobody", 30)
    assert told.read_text().startswith("tells one: plan_offset_ranges: ")
    assert "no Airflow connection 'nobody_knows_it'" in told.read_text()
