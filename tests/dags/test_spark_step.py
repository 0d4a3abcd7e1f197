"""The operator that submits, which is the provider's."""

import os
from types import SimpleNamespace

from tests.worlds.shown_variables import shown, started, submission_that_shows
from tideline.airflow.step_operators import SparkStep
from tideline.stream.stream import Stream

SECRET = ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_CONN_LAKE", "DATABASE_URL")


def test_spark_submit_gets_no_secret_of_the_task(monkeypatch, tmp_path):
    """The provider would hand on all that the task has."""
    for name in SECRET:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("SPARK_CONF_DIR", "/etc/spark")
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", '{"conn_type": "spark", "host": "local"}')
    stream = {"stream": "orders", "kafka": {"topics": ["o"]}, "table": {"uri": "/lake/o"}}
    step = SparkStep(task_id="ingest_ranges", stream=Stream.model_validate(stream))
    step._execute_submission({"ti": SimpleNamespace()}, submission_that_shows(tmp_path))
    found = shown(tmp_path)
    assert "secret" not in found.values()
    assert found["SPARK_CONF_DIR"] == "/etc/spark"
    assert [os.environ[name] for name in SECRET] == ["secret"] * 3
    place = started(tmp_path)  # a worker's folder may be one that others fill
    assert (place["mode"], place["files"]) == (0o700, [])
    assert place["folder"] != os.getcwd()
