"""How Spark is started: which way, with what, and how it is stopped."""

import json
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.worlds.build import planned, spark_job
from tideline.connections import Connection
from tideline.documents import dump
from tideline.errors import ConnectionMissing, ServiceAway
from tideline.launch import jvm, launcher, submit
from tideline.launch.connect import SparkConnect
from tideline.launch.launcher import Launcher
from tideline.launch.programs import TOKEN
from tideline.launch.submit import Child, SparkSubmit, Submission, submit_command
from tideline.store.azure import AzureSettings
from tideline.store.google import GoogleSettings
from tideline.store.s3 import S3Settings
from tideline.stream.landing import Spark

SUBMISSION = Submission(
    master="local[2]",
    application="/jobs/ingest_range.py",
    arguments=("job.json",),
    jars=("/a.jar", "/b.jar"),
    py_files=("/tideline.zip",),
    conf={"spark.ui.enabled": "false"},
    environment={"SPARK_LOCAL_IP": "127.0.0.1"},
)


@pytest.fixture
def job_path(tmp_path):
    """A job of ten offsets."""
    job = spark_job()
    path = tmp_path / "job.json"
    path.write_text(dump(job))
    return str(path)


@pytest.fixture
def connections(monkeypatch, tmp_path):
    """Connections by id; also the ids that were asked for."""
    known, asked = {}, []

    def find(connection_id):
        asked.append(connection_id)
        return known.get(connection_id)

    monkeypatch.setattr(launcher, "find_connection", find)
    monkeypatch.setattr(submit, "spark_jars", lambda kind: [Path(f"/{kind}.jar")] if kind else [])
    monkeypatch.setattr(launcher, "is_plain", lambda: True)
    monkeypatch.setenv("TIDELINE_CACHE", str(tmp_path / "cache"))
    return known, asked


def test_secrets_of_a_store_reach_a_submission_by_the_environment_only(connections, job_path):
    """An argument, a property or a file would show or keep them."""
    known, _ = connections
    known["spark"] = Connection("spark", "spark://master", 7077)
    store = S3Settings("lake", "AKIA", "hidden", endpoint="http://127.0.0.1:9000")
    submissions = []
    Launcher(Spark(connection="spark"), submissions.append, store=store).submit(job_path)
    (submission,) = submissions
    assert submission.jars == ("/s3a.jar",)
    assert "hidden" not in " ".join(submit_command(submission))
    assert "hidden" not in {**submission.conf, **submission.environment}.values()
    assert submission.store.within({})["AWS_SECRET_ACCESS_KEY"] == "hidden"


@pytest.mark.parametrize(
    "store",
    [AzureSettings("lake", key="a2V5"), GoogleSettings("lake", key='{"private_key": "hidden"}')],
)
def test_a_secret_that_reaches_no_executor_is_refused_before_spark(connections, job_path, store):
    """On this machine it does."""
    known, _ = connections
    known["spark"] = Connection("spark", "spark://master", 7077)
    submissions = []
    with pytest.raises(ConnectionMissing, match=r"connection lake: .* reaches no executor"):
        Launcher(Spark(connection="spark"), submissions.append, store=store).submit(job_path)
    assert submissions == []
    known["spark"] = Connection("spark", "local-cluster[1,1,1024]")
    Launcher(Spark(connection="spark"), submissions.append, store=store).submit(job_path)
    assert "hidden" not in " ".join(submit_command(submissions[0]))


def test_a_master_leads_to_spark_submit(connections, job_path):
    known, asked = connections
    known["spark"] = Connection("spark", "spark://master", 7077)
    submissions = []
    spark = Launcher(Spark(connection="spark"), submissions.append)
    assert asked == []  # a run with nothing to land asks for no connection
    spark.submit(job_path)
    (submission,) = submissions
    assert asked == ["spark"]
    assert (submission.master, submission.is_default_master) == ("spark://master:7077", False)
    assert submission.application.endswith("ingest_range.py")
    assert submission.arguments == (job_path,)
    assert submission.environment["PYSPARK_PYTHON"] == sys.executable
    assert "SPARK_LOCAL_IP" not in submission.environment


def test_a_remote_master_without_encryption_is_warned_of(
    connections, job_path, monkeypatch, tmp_path, caplog
):
    """Secrets travel to its executors."""
    known, _ = connections
    known["cluster"] = Connection("spark", "spark://master", 7077)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    settings = tmp_path / "spark-defaults.conf"
    for text, missing in (
        ("", "set spark.authenticate and spark.network.crypto.enabled to true"),
        ("spark.authenticate true", "set spark.network.crypto.enabled to true"),
        ("spark.authenticate=true\nspark.network.crypto.enabled true", None),
    ):
        settings.write_text(text)
        caplog.clear()
        Launcher(Spark(connection="cluster"), lambda _: None).submit(job_path)
        assert [missing in message for message in caplog.messages] == [True] * bool(missing)
    settings.write_text("")
    known["cluster"] = Connection("spark", "local[2]")
    monkeypatch.setattr(launcher, "is_plain", lambda: False)
    Launcher(Spark(connection="cluster"), lambda _: None).submit(job_path)
    assert caplog.messages == []


class Client:
    """Notes what a client is asked for."""

    calls: list[object]

    def __init__(self, *arguments):
        self.calls.append(arguments)

    def submit(self, path):
        self.calls.append(path)

    def stop(self):
        self.calls.append("stopped")


@pytest.fixture
def client(monkeypatch):
    """Stands for every client that needs no spark-submit; its calls."""
    monkeypatch.setattr(Client, "calls", [], raising=False)
    monkeypatch.setattr(launcher, "SparkConnect", Client)
    monkeypatch.setattr(launcher, "LocalDriver", Client)
    return Client.calls


def no_submit(_):
    pytest.fail("spark-submit")


def test_without_a_connection_a_driver_on_this_machine_is_kept_warm(connections, job_path, client):
    spark = Launcher(Spark(), no_submit)
    spark.submit(job_path)
    spark.stop()
    assert client == [("local[*]", 900, None, None), job_path, "stopped"]


@pytest.mark.parametrize("master", ["local", "local[4]", "local[2,3]"])
def test_a_local_master_leads_to_the_warm_driver(connections, job_path, client, master):
    known, _ = connections
    known["spark_default"] = Connection("spark", master)
    Launcher(Spark(keep_warm_seconds=0), no_submit).submit(job_path)
    assert client == [(master, 0, None, None), job_path]


def test_local_processes_of_a_cluster_are_spark_submit_s(connections, job_path, client):
    """`local-cluster` starts executors of their own, which need the jars."""
    known, _ = connections
    known["spark_default"] = Connection("spark", "local-cluster[2,1,1024]")
    submissions = []
    Launcher(Spark(), submissions.append).submit(job_path)
    assert (len(submissions), client) == (1, [])


def test_a_spark_with_settings_of_its_own_is_spark_submit_s(
    connections, job_path, client, monkeypatch
):
    """It reads files and variables that we do not."""
    monkeypatch.setattr(launcher, "is_plain", lambda: False)
    submissions = []
    Launcher(Spark(), submissions.append).submit(job_path)
    (submission,) = submissions
    assert client == []
    assert (submission.master, submission.is_default_master) == ("local[*]", True)
    assert submission.environment["SPARK_LOCAL_IP"] == "127.0.0.1"


OVERRIDES = ("SPARK_HOME", "SPARK_CONF_DIR", "SPARK_DRIVER_MEMORY", "SPARK_SUBMIT_OPTS")


def test_what_makes_a_spark_one_s_own(monkeypatch, tmp_path):
    monkeypatch.setattr(jvm, "spark_home", lambda: tmp_path)
    for name in (*OVERRIDES, "SPARK_DIST_CLASSPATH", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert jvm.is_plain()
    for name in OVERRIDES:
        with monkeypatch.context() as patch:
            patch.setenv(name, "something")
            assert not jvm.is_plain(), name
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").touch()
    assert not jvm.is_plain()


def test_a_connect_server_is_used_without_spark_submit(connections, job_path, client):
    known, _ = connections
    known["warm"] = Connection("spark_connect", "warm")
    spark = Launcher(Spark(connection="warm"), no_submit)
    spark.submit(job_path)
    spark.stop()
    assert client == [("sc://warm:15002/", None, "warm"), job_path, "stopped"]


def test_a_server_s_token_is_told_by_the_environment_only(monkeypatch, job_path):
    """Spark prints addresses, and everybody sees arguments."""
    told = []
    monkeypatch.setattr(Child, "run", lambda _, *given: told.append(given) or 0)
    monkeypatch.setattr(SparkConnect, "_refuse_unreachable", lambda _: None)
    SparkConnect("sc://warm:15002/", "hidden", "warm").submit(job_path)
    ((command, variables),) = told
    assert "hidden" not in " ".join(command)
    assert [name for name, value in variables.items() if "hidden" in value] == [TOKEN]


def test_stopping_reaches_what_was_started(connections, job_path):
    """And nothing where nothing was: Airflow may kill a task before it needs Spark."""
    known, _ = connections
    known["spark_default"] = Connection("spark", "spark://master", 7077)
    stopped = []
    spark = Launcher(Spark(), lambda _: None, lambda: stopped.append(True))
    spark.stop()
    assert stopped == []
    spark.submit(job_path)
    spark.stop()
    assert stopped == [True]


def test_a_submission_as_a_command():
    assert submit_command(SUBMISSION) == [
        "spark-submit",
        *("--master", "local[2]"),
        *("--jars", "/a.jar,/b.jar"),
        *("--py-files", "/tideline.zip"),
        *("--conf", "spark.ui.enabled=false"),
        *("/jobs/ingest_range.py", "job.json"),
    ]


@pytest.mark.parametrize(
    ("script", "text"), [(None, "cannot be started"), ("#!/bin/sh\nexit 7\n", "status 7")]
)
def test_spark_submit_that_fails_may_be_tried_again(tmp_path, script, text):
    """It is found by the submission's own PATH."""
    if script is not None:
        (tmp_path / "spark-submit").write_text(script)
        (tmp_path / "spark-submit").chmod(0o700)
    submission = Submission("local", "a.py", (), (), (), {}, {"PATH": str(tmp_path)})
    with pytest.raises(ServiceAway, match=text):
        SparkSubmit().run(submission)


SAYS = "echo out; echo err >&2; exit "


@pytest.mark.parametrize(
    ("level", "status", "said"),
    [("INFO", 0, ""), ("INFO", 7, "out\nerr\n"), ("DEBUG", 0, "out\nerr\n")],
)
def test_what_a_child_says_is_shown_if_it_fails(capfd, caplog, level, status, said):
    """Spark's start says dozens of lines; `--verbose` shows them in any case."""
    caplog.set_level(level, "tideline")
    assert Child().run(["sh", "-c", f"{SAYS}{status}"], os.environ) == status
    found = capfd.readouterr()
    assert (found.out, found.err) == ("", said)


def test_a_watched_job_says_how_far_it_is(fake, sockets, tmp_path):
    """Only a run that wants to know asks the driver for it."""
    job = tmp_path / "job.json"
    job.write_text(dump(spark_job(planned(0, 30), planned(5, 25, partition=1))))
    seen = []
    watcher = SimpleNamespace(
        begin=lambda *facts: seen.append(("begin", *facts)),
        stage=lambda text: seen.append(text),
        update=lambda *facts: seen.append(("update", *facts)),
        end=lambda: seen.append("end"),
    )
    Launcher(Spark(), watcher=watcher).submit(str(job))
    assert seen == [
        *(("begin", 2, 50), "starting Spark", "Spark is planning the job", ("update", 1, 3, 40)),
        "end",
    ]
    assert json.loads(fake.notes[-1])["progress"] is True
    fake.plans("fails")
    with pytest.raises(ServiceAway):
        Launcher(Spark(), watcher=watcher).submit(str(job))
    assert seen[-1] == "end"
    fake.plans("works")
    Launcher(Spark()).submit(str(job))
    assert "progress" not in fake.notes[-1]


def test_a_signal_handler_can_stop_a_child_that_is_waited_for():
    """As Airflow's does; waiting for the child inside of the handler would never end."""
    child = Child()
    before = signal.signal(signal.SIGALRM, lambda *_: child.stop())
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        assert child.run(["sleep", "600"], os.environ) == -signal.SIGKILL
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_child_ends_with_the_wait_for_it():
    """SIGTERM becomes an exception in the command line."""
    child = Child()

    def leave(*_):
        raise SystemExit

    before = signal.signal(signal.SIGALRM, leave)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(SystemExit):
            child.run(["sleep", "600"], os.environ)
        assert child._process.returncode == -signal.SIGKILL
    finally:
        signal.signal(signal.SIGALRM, before)
