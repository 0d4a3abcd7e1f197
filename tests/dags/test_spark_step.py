"""The operator that submits, which is the provider's; the driver that starts before its task."""

import os
from types import SimpleNamespace

import pytest

from tests.worlds.shown_variables import shown, started, submission_that_shows
from tideline.airflow import step_operators
from tideline.airflow.step_operators import SparkStep
from tideline.stream.stream import Stream

SECRET = ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_CONN_LAKE", "DATABASE_URL")

STREAM = Stream.model_validate(
    {"stream": "orders", "kafka": {"topics": ["o"]}, "table": {"uri": "/lake/o"}}
)


def test_spark_submit_gets_no_secret_of_the_task(monkeypatch, tmp_path):
    """The provider would hand on all that the task has."""
    for name in SECRET:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local"}')
    step = SparkStep(task_id="ingest_ranges", stream=STREAM)
    step._execute_submission({"ti": SimpleNamespace()}, submission_that_shows(tmp_path))
    found = shown(tmp_path)
    assert "secret" not in found.values()
    assert found["SPARK_CONF_DIR"] == "/etc/spark"
    assert [os.environ[name] for name in SECRET] == ["secret"] * 3
    place = started(tmp_path)  # a worker's folder may be one that others fill
    assert (place["mode"], place["files"]) == (0o700, [])
    assert place["folder"] != os.getcwd()


@pytest.mark.parametrize(
    ("executor", "prepared"), [("LocalExecutor", 1), ("CeleryExecutor", 0), ("LocalExecutor,x", 0)]
)
def test_a_driver_is_prepared_where_the_next_task_runs_on_the_same_machine(
    executor, prepared, monkeypatch
):
    called = []
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", executor)
    monkeypatch.setattr(
        step_operators.Launcher, "prepare", lambda launcher: called.append(launcher)
    )
    step_operators.prepare_spark(STREAM)
    assert len(called) == prepared
