"""Which variables Spark's processes get: what they need, and no secret of Airflow's."""

import os

import pytest

from tests.worlds.shown_variables import shown, submission_that_shows
from tideline.launch import connect, local_driver
from tideline.launch.connect import SparkConnect
from tideline.launch.programs import SITE, decisive, spark_variables
from tideline.launch.submit import SparkSubmit

SECRETS = {
    "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": "secret",
    "AIRFLOW__CORE__FERNET_KEY": "secret",
    "AIRFLOW__API_AUTH__JWT_SECRET": "secret",
    "AIRFLOW_CONN_LAKE": "secret",
    "AIRFLOW_VAR_KEY": "secret",
    "_AIRFLOW_PROCESS_CONTEXT": "secret",
    "DATABASE_URL": "secret",
    "POSTGRES_PASSWORD": "secret",
}
NEEDED = {
    "HOME": "/home/me",
    "LC_CTYPE": "C.UTF-8",
    "TZ": "UTC",
    "KRB5CCNAME": "/tmp/cc",
    "HADOOP_CONF_DIR": "/etc/hadoop",
    "YARN_CONF_DIR": "/etc/yarn",
    "SPARK_CONF_DIR": "/etc/spark",
    "AWS_PROFILE": "lake",
    "https_proxy": "http://proxy:3128",
    "TIDELINE_CACHE": "/var/cache/tideline",
}


@pytest.fixture(autouse=True)
def task(monkeypatch):
    """This process has what a task of Airflow has."""
    for name, value in {**SECRETS, **NEEDED}.items():
        monkeypatch.setenv(name, value)


def holds_what_it_needs(variables):
    assert {name: variables.get(name) for name in NEEDED} == NEEDED
    assert [name for name, value in variables.items() if value == "secret"] == []


def test_only_named_variables_pass():
    holds_what_it_needs(spark_variables(os.environ))


def test_a_site_names_more_and_never_airflow_s(monkeypatch):
    """They make another driver, since nobody knows what they change."""
    monkeypatch.setenv("LAKE_USER", "me")
    monkeypatch.setenv("LAKE_ZONE", "north")
    monkeypatch.setenv(SITE, "LAKE_*, DATABASE_URL, AIRFLOW__CORE__FERNET_KEY, AIRFLOW*, *")
    found = spark_variables(os.environ)
    assert (found["LAKE_USER"], found["LAKE_ZONE"]) == ("me", "north")
    assert found["DATABASE_URL"] == "secret"
    assert not [name for name in found if "AIRFLOW" in name]
    assert decisive(found)["LAKE_ZONE"] == "north"


def test_spark_submit_gets_none(tmp_path):
    """The one of Airflow's provider neither: `tests/dags/test_spark_step.py`."""
    submission = submission_that_shows(tmp_path)
    SparkSubmit().run(submission)
    holds_what_it_needs(shown(tmp_path))


def test_a_client_of_spark_connect_gets_none(monkeypatch, tmp_path):
    told = []
    monkeypatch.setattr(connect.Child, "run", lambda _, *given: told.append(given) or 0)
    monkeypatch.setattr(connect, "package_zip", lambda: "/package.zip")
    monkeypatch.setattr(SparkConnect, "_refuse_unreachable", lambda _: None)
    (tmp_path / "job.json").write_text("{}")
    SparkConnect("sc://warm").submit(str(tmp_path / "job.json"))
    ((_, variables),) = told
    holds_what_it_needs(variables)


def test_a_warm_driver_gets_none():
    found = local_driver._environment(None)
    holds_what_it_needs(found)
