"""Row 20 under a real Airflow: a task's process, and the scheduler, killed with -9."""

import os
import signal

import pytest

from devstack.airflow_harness import AirflowHarness, started
from devstack.process import wait_until
from devstack.stack import Stack
from tests.faults.crash import Crash
from tests.faults.processes import descendants, is_spark, processes, state
from tideline.wiring import open_ledger

pytestmark = pytest.mark.slow

QUICK = {
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_SEC": "2",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "15",
    "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "3",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "10",
}
"""So that Airflow notices within seconds what it would notice within five minutes."""
RETRIES = {"retries": 8, "retry_delay_seconds": 2}


@pytest.fixture(scope="module")
def stack(tmp_path_factory):
    """A broker and an Airflow of this module's own: its scheduler is killed.

    Spark has a folder for settings, so Airflow's operator runs spark-submit.
    """
    settings = {**QUICK, "SPARK_CONF_DIR": str(tmp_path_factory.mktemp("conf"))}
    found = Stack.build(tmp_path_factory.mktemp("stack"), settings=settings).start()
    yield found
    found.stop()


@pytest.fixture
def client(stack):
    """Logged in."""
    return stack.airflow.client()


@pytest.fixture
def crash(stack, client, tmp_path, request, monkeypatch, spark, report, ledger):
    """A stream of its own that Airflow schedules, with records waiting."""
    name = f"{request.node.name.split('[')[0].replace('_', '-')[5:40]}-{ledger}"
    harness = AirflowHarness(stack, tmp_path, name)
    found = Crash(harness, spark, report)
    found.ledger, found.dag_id = ledger, name
    monkeypatch.setenv("AIRFLOW_CONN_TIDELINE_LEDGER", stack.airflow.ledger_connection)
    harness.create(partitions=1)
    kafka = {"topics": [found.topic], "commit_group": found.group}
    found.stream = started(harness, client, name, kafka=kafka, ledger=ledger, airflow=RETRIES)
    found.send(100)
    return found


def jvm(stack):
    """Process id and parent of the Spark application that a task has started, if one runs."""
    mine = {pid for pid, _ in descendants(stack.airflow.servers["scheduler"].pid)}
    found = [
        (pid, parent) for pid, parent, command in processes() if pid in mine and is_spark(command)
    ]
    return found[0] if found else None


def ends_well(crash, client, run_id):
    """Airflow has repaired it by itself."""
    assert client.wait_for_run(crash.dag_id, run_id) == "success"
    tries = client.tasks(crash.dag_id, run_id)
    crash.attempts = max(task["try_number"] for task in tries.values())
    assert crash.attempts > 1


def test_a_task_s_process_is_killed_while_spark_runs(crash, client, stack):
    """R2, R5: Airflow's retry works beside the Spark that the dead task has left."""
    client.trigger(crash.dag_id, "one")
    wait_until(lambda: jvm(stack) is not None, "Spark does not start", 120, 0.05)
    spark, task = jvm(stack)
    os.kill(task, signal.SIGKILL)
    assert state(spark) not in ("", "Z")
    ends_well(crash, client, "one")
    wait_until(lambda: state(spark) in ("", "Z"), "the first Spark goes on", 60)
    crash.judge_crash("Airflow: task killed while Spark runs")


def test_the_scheduler_is_killed_in_the_middle_of_a_run(crash, client, stack):
    """Whatever it had started is found again by the one that comes next."""
    client.trigger(crash.dag_id, "one")
    wait_until(lambda: jvm(stack) is not None, "Spark does not start", 120, 0.05)
    stack.airflow.servers["scheduler"].signal(signal.SIGKILL)
    stack.airflow.start_service("scheduler")
    ends_well(crash, client, "one")
    crash.judge_crash("Airflow: scheduler killed while Spark runs")


def test_a_task_is_killed_before_its_event_is_told(crash, client, stack):
    """The head has moved; the retry tells the event, once, with the same rows."""
    airflow = stack.airflow
    airflow.servers["scheduler"].stop()
    airflow.start_service("scheduler", environment={"TIDELINE_FAILPOINT": "event:ready:kill"})
    client.trigger(crash.dag_id, "one")
    wait_until(
        lambda: (client.tasks(crash.dag_id, "one")["advance_offsets"]["try_number"] or 0) > 1,
        "the task is not killed",
        180,
        0.5,
    )
    assert open_ledger(crash.stream).find_run("one").status == "done"
    airflow.servers["scheduler"].stop()
    airflow.start_service("scheduler")
    ends_well(crash, client, "one")
    events = client.asset_events(crash.dag_id)
    assert [event["extra"]["rows"] for event in events] == [100]
    crash.judge_crash("Airflow: task killed at event:ready")
