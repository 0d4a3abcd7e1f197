"""Where child processes stand, and what they get: none of what their caller's folder holds."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.worlds.protobuf_schemas import PROTO3, writer
from tests.worlds.shown_variables import started, submission_that_shows
from tideline.children import child_env
from tideline.launch import java
from tideline.launch.java import system_java
from tideline.launch.programs import SITE, spark_variables
from tideline.launch.submit import Child, SparkSubmit
from tideline.registry.protobuf_files import compiled_protobuf

SECRETS = ("AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_CONN_KAFKA_DEFAULT", "_AIRFLOW_CONTEXT")


@pytest.fixture(autouse=True)
def foreign(monkeypatch, tmp_path):
    """The folder that the caller stands in, which somebody else fills; Airflow's secrets."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    (folder / "json.py").write_text("raise SystemExit('code of the folder ran')")
    monkeypatch.chdir(folder)
    for name in SECRETS:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("PYTHONPATH", f":{os.environ.get('PYTHONPATH', '')}")
    return folder


def stands_apart(found):
    """It stands in an empty folder of this user's alone, and has no secret of Airflow's."""
    assert (found["mode"], found["files"]) == (0o700, [])
    assert Path(found["folder"]) != Path.cwd()
    assert not Path(found["folder"]).exists()  # gone with the child
    assert "secret" not in found["variables"].values()
    path = found["variables"]["PYTHONPATH"]
    assert not path or all(map(os.path.isabs, path.split(os.pathsep)))


def test_spark_submit(tmp_path):
    """Its launcher takes jars from `hive-jackson/` of where it stands, ahead of Spark's own."""
    SparkSubmit().run(submission_that_shows(tmp_path))
    stands_apart(started(tmp_path))


def test_a_client_of_spark_connect(tmp_path):
    """A command of any kind: none hands on what it does not have to, even if it is asked to."""
    submission_that_shows(tmp_path)
    program = str(tmp_path / "spark-submit")
    given = {**os.environ, SITE: "*", "SPARK_LOCAL_IP": "127.0.0.1"}
    assert Child().run([sys.executable, program], given) == 0
    stands_apart(started(tmp_path))


@pytest.fixture
def children(monkeypatch):
    """What each child is started with."""
    seen = []
    really = subprocess.run

    def run(command, **how):
        seen.append((command, how))
        return really(command, **how)

    monkeypatch.setattr(subprocess, "run", run)
    return seen


def test_protoc(children, foreign):
    """It reads what a registry says, and needs nothing that we know."""
    compiled_protobuf(writer(4711, PROTO3 + "message Apart { string name = 1; }\n"))
    ((_, how),) = children
    assert how["cwd"] != foreign
    assert how["cwd"].is_absolute()
    assert "secret" not in how["env"].values()


def test_a_java_that_says_its_version(children, tmp_path, monkeypatch):
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin/java").write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    (home / "bin/java").chmod(0o700)
    monkeypatch.setenv("JAVA_HOME", "../java")
    monkeypatch.setattr(java.shutil, "which", lambda _: None)
    assert system_java().home.resolve() == home
    ((_, how),) = children
    assert str(how["cwd"]) == "/"
    assert "secret" not in how["env"].values()


def test_only_absolute_paths_are_handed_on(foreign):
    """What a caller names is meant where the caller stands; nothing is no place."""
    given = {"SPARK_DIST_CLASSPATH": "::jars/*:/opt/b.jar", "JAVA_HOME": "jdk", "PYTHONPATH": ""}
    assert child_env(given) == {
        "SPARK_DIST_CLASSPATH": f"{foreign}/jars/*:/opt/b.jar",
        "JAVA_HOME": f"{foreign}/jdk",
        "PYTHONPATH": "",
    }
    assert spark_variables({"HADOOP_CONF_DIR": "conf"}) == {"HADOOP_CONF_DIR": f"{foreign}/conf"}
    assert not [name for name in child_env(os.environ) if re.match("_?AIRFLOW_", name)]
    assert json.dumps(child_env({"PATH": "bin"})) == '{"PATH": "bin"}'
