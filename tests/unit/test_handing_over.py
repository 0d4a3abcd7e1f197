"""A job on its way to Spark and back: what is believed of a result, and what a dead run leaves."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.worlds.build import spark_job
from tests.worlds.spark_doubles import Session
from tideline.documents import dump
from tideline.errors import ServiceAway
from tideline.landing.attempts import submit
from tideline.launch import runtime
from tideline.launch.runtime import PREFIX, PrivateFolder
from tideline.model.spark_job import SparkJob, SparkResult
from tideline.spark.application import ALONE, run_job

JOB = spark_job(kafka_options={"kafka.sasl.jaas.config": "hidden"})


def answering(**result):
    """A run whose Spark writes a result, and no more."""

    def answers(job_path):
        place = json.loads(Path(job_path).read_bytes())["result_path"]
        Path(place).write_text(json.dumps(result))

    stream = SimpleNamespace(spark=SimpleNamespace(stall_seconds=60))
    return SimpleNamespace(spark=SimpleNamespace(submit=answers), stream=stream)


@pytest.mark.parametrize("name", ["Any", "ClassVar", "annotations", "NoSuchError"])
def test_a_result_may_name_no_other_object(name):
    """It is a file: what it names is a class of the tree, or the run may be tried again."""
    with pytest.raises(ServiceAway, match="could not read"):
        submit(answering(error=name, message="m"), JOB)


@pytest.fixture
def place(monkeypatch, tmp_path):
    """The folder for temporary files; nothing in it belongs to anybody else."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def holding(place, secret="hidden"):
    """Files that hold the secret."""
    return [f for f in place.rglob("*") if f.is_file() and secret in f.read_text()]


DIES = """
import sys, time
from types import SimpleNamespace
from tests.worlds.build import spark_job
from tideline.landing.attempts import submit

def waits(path):
    print(path, flush=True)
    time.sleep(600)

options = {"kafka.sasl.jaas.config": "hidden"}
stream = SimpleNamespace(spark=SimpleNamespace(stall_seconds=60))
run = SimpleNamespace(spark=SimpleNamespace(submit=waits), stream=stream)
submit(run, spark_job(kafka_options=options))
"""


def begun():
    """A run in a process of its own that hands its job over, and waits."""
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-c", DIES],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


def test_what_a_killed_run_has_left_goes_with_the_next_one(place):
    """Its job has Kafka's secrets. That of a run that lives stays."""
    killed, living = begun(), begun()
    try:
        left, kept = (Path(p.stdout.readline().strip()) for p in (killed, living))
        killed.kill()
        killed.wait()
        assert left in holding(place)
        submit(answering(rows=0), JOB)
        assert holding(place) == [kept]
        assert not left.parent.exists()
    finally:
        for process in (killed, living):
            process.kill()
            process.wait()


def test_only_what_is_ours_is_swept(place, monkeypatch):
    """Names in a folder for all can be guessed: a link, a file, another user's folder."""
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    (place / f"{PREFIX}link").symlink_to(elsewhere)
    (place / f"{PREFIX}file").touch()
    theirs = place / f"{PREFIX}theirs"
    theirs.mkdir()
    me = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with PrivateFolder():
        pass
    assert theirs.exists()
    monkeypatch.setattr(os, "geteuid", lambda: me)
    with PrivateFolder() as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(found.name for found in place.iterdir()) == [
        "elsewhere",
        f"{PREFIX}file",
        f"{PREFIX}link",
    ]
    assert (elsewhere / "kept").exists()


def test_one_that_is_swept_while_it_is_made_is_made_again(place, monkeypatch):
    """Between its making and its locking it looks like one that was left."""
    made, swept = tempfile.mkdtemp, []

    def makes(**given):
        folder = made(**given)
        if not swept:
            runtime._sweep(place)
            swept.append(folder)
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", makes)
    with PrivateFolder() as folder:
        assert not Path(swept[0]).exists()
        assert list(place.iterdir()) == [folder]


@pytest.mark.parametrize("fails", [False, True])
def test_the_application_removes_its_job_once_it_is_read(tmp_path, fails):
    """A driver that is killed leaves no secret behind."""
    path = tmp_path / "job.json"
    path.write_text(dump(replace(JOB, result_path=str(tmp_path / "result"))))
    seen = []

    def execute(_spark, job):
        seen.append((dict(job.kafka_options), path.exists()))
        if fails:
            raise ValueError("a bug")
        return SparkResult(rows=1)

    kinds = (SparkJob, SparkResult)
    run_job(str(path), kinds, execute, lambda *_: SparkResult(error="x"), Session(), ALONE)
    assert seen == [({"kafka.sasl.jaas.config": "hidden"}, False)]
    assert (tmp_path / "result").exists()
