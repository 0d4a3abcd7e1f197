"""What Airflow starts for a task, and what a task's process imports."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.worlds.build import plan, planned
from tideline.pipeline.run_batch import AFTER_DETECTION

ROOT = Path(__file__).parents[2]

FORKED = """
import json, os, sys
HEAVY = {"tideline", "deltalake", "kafka", "numpy", "pyarrow", "requests"}
sys.argv = ["airflow", %(service)r]
from airflow.listeners.listener import get_listener_manager

get_listener_manager().hook.on_starting(component=object())  # as a Job of Airflow's does
%(between)s
if os.fork() == 0:
    from airflow.sdk.execution_time.task_runner import TaskRunnerMarker
    from airflow.sdk.listener import get_listener_manager as of_tasks

    of_tasks().hook.on_starting(component=TaskRunnerMarker())
    before = set(sys.modules)
    import tideline_streams
    from tideline.kafka import kafka_cluster
    from tideline.airflow import stream_dags
    print(json.dumps({
        "imported": sorted(n for n in set(sys.modules) - before if n.split(".")[0] in HEAVY),
        "ahead": sorted({"tideline.wiring", *HEAVY} & before - {"tideline"}),
        "note": getattr(stream_dags, "NOTE", None),
        "dags": sorted(dag.dag_id for dag in stream_dags.stream_dags(None)),
    }), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.fixture
def checkout(tmp_path):
    """Plugins and Dags as Airflow finds them, and a stream."""
    for folder in ("plugins", "dags"):
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "streams")
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=ignored)
    (tmp_path / "streams").mkdir()
    (tmp_path / "streams" / "orders.yaml").write_text(
        "stream: orders\nkafka: {topics: [orders]}\ntable: {uri: /data/lake/orders}\n"
    )
    return tmp_path


def task_of(checkout, service, between=""):
    """What a process that is forked from a service finds and imports."""
    env = os.environ | {
        "AIRFLOW_HOME": str(checkout / "home"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(checkout / "plugins"),
        "PYTHONPATH": f"{checkout / 'plugins'}:{checkout / 'dags'}",
        "TIDELINE_STREAMS": str(checkout / "streams"),
    }
    done = subprocess.run(
        [sys.executable, "-c", FORKED % {"service": service, "between": between}],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_task_forked_from_the_scheduler_imports_nothing(checkout):
    """Neither a library nor a module of ours: importing was nine tenths of an idle run's tasks."""
    task = task_of(checkout, "scheduler")
    assert task["imported"] == []
    assert task["dags"] == ["orders"]


def test_after_an_update_in_place_a_task_runs_the_new_files(checkout):
    """The scheduler goes on with the old ones in its memory; none of them may be mixed in."""
    file = checkout / "plugins" / "tideline" / "airflow" / "stream_dags.py"
    between = f"open({str(file)!r}, 'a').write('\\nNOTE = \"new\"\\n')"
    task = task_of(checkout, "scheduler", between)
    assert task["note"] == "new"
    assert {"tideline.wiring", "tideline.kafka.kafka_cluster"} <= set(task["imported"])
    assert {name.split(".")[0] for name in task["imported"]} == {"tideline"}


def test_the_dag_processor_has_the_libraries_only(checkout):
    """Nothing tells its children that our files have changed."""
    task = task_of(checkout, "dag-processor")
    assert task["ahead"] == ["deltalake", "kafka", "numpy", "pyarrow", "requests"]
    assert {name.split(".")[0] for name in task["imported"]} == {"tideline"}


def test_other_services_import_nothing_ahead(checkout):
    """They fork no task and parse no Dag file; it would only take memory."""
    assert task_of(checkout, "api-server")["ahead"] == []


def test_a_library_that_is_missing_is_left_to_whoever_needs_it(monkeypatch):
    """A scheduler must not fail to start over a plugin."""
    from tideline.airflow import preload

    told = []
    monkeypatch.setattr(preload.log, "warning", lambda text, *values: told.append(text % values))
    preload.preload(("no_such_library", "json"))
    assert told == ["no_such_library is not imported ahead: No module named 'no_such_library'"]


@pytest.mark.parametrize(
    ("ranges", "status", "skipped"),
    [
        ((), "nothing_to_do", AFTER_DETECTION),
        ((planned(100, 120),), "planned", ("resolve_reset",)),
        ((), "proposed", ()),
    ],
    ids=["idle", "to land", "a decision comes first"],
)
def test_detection_has_tasks_without_work_skipped_by_the_scheduler(
    monkeypatch, ranges, status, skipped
):
    """No process is started for them; the plan's id is shown all the same."""
    shown = {}
    frozen = None if status == "proposed" else plan(*ranges)
    record = SimpleNamespace(
        status=status,
        plan=frozen,
        proposal=None,
        resolved=(),
        is_to_replan=False,
        is_to_execute=bool(ranges),
    )
    found = outcome(monkeypatch, record, shown, {})
    plan_id = frozen and frozen.plan_id
    if skipped:
        assert (found, shown) == (list(skipped), {"return_value": plan_id})
    else:
        assert (found, shown) == (plan_id, {})


def test_a_question_about_a_plan_starts_two_tasks(monkeypatch):
    """`plan_only` lands nothing: nothing else has to start to say so."""
    from tideline.airflow import operators

    monkeypatch.setattr(operators, "dry_run", lambda run: SimpleNamespace(halts=False))
    assert outcome(monkeypatch, None, {}, {"plan_only": True}) == list(AFTER_DETECTION)


def outcome(monkeypatch, record, shown, params):
    """What the task returns, or the tasks that it has the scheduler skip."""
    from airflow.sdk.exceptions import DownstreamTasksSkipped

    from tideline.airflow import operators

    state = SimpleNamespace(
        head=SimpleNamespace(headroom=()), control=SimpleNamespace(incidents=())
    )
    run = SimpleNamespace(ledger=SimpleNamespace(read=lambda: state))

    @contextmanager
    def airflow_run(stream, context):
        yield run

    monkeypatch.setattr(operators, "airflow_run", airflow_run)
    monkeypatch.setattr(operators, "detect_earliest_reset", lambda run: record)
    monkeypatch.setattr(operators, "publish_detected", lambda *args: None)
    task = operators.DetectEarliestReset(
        task_id="detect_earliest_reset",
        stream=SimpleNamespace(stream="orders", decode=None, current=None),
    )
    push = SimpleNamespace(xcom_push=lambda key, value: shown.update({key: value}))
    try:
        return task.execute({"ti": push, "params": params})
    except DownstreamTasksSkipped as skip:
        return skip.tasks
