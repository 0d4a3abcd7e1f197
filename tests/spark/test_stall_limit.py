"""Jobs that get nowhere, in a real Spark: they end, and say so."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.worlds import stuck_application
from tests.worlds.build import spark_job
from tideline.documents import dump, load
from tideline.launch.connect import SparkConnect
from tideline.model.spark_job import SparkResult
from tideline.spark.application import Host


@pytest.fixture
def job_file(tmp_path, request):
    """A job that may stand still for two seconds, or as long as a test says."""
    seconds = getattr(request, "param", 2)
    job = replace(spark_job(), result_path=str(tmp_path / "result.json"), stall_seconds=seconds)
    (tmp_path / "job.json").write_text(dump(job))
    return str(tmp_path / "job.json")


@pytest.fixture
def session(in_process_spark):
    yield in_process_spark.session
    in_process_spark.session.sparkContext.setJobGroup("", "")


def written(job_file):
    return load(SparkResult, Path(job_file).with_name("result.json").read_bytes(), "the result")


def is_told(result):
    return result.error == "ServiceAway" and "no record was read for 2 s" in result.message


def test_a_job_that_stands_still_is_cancelled_and_spark_goes_on(session, job_file, monkeypatch):
    monkeypatch.setattr("tideline.spark.stall_limit._CANCEL_SECONDS", 20)
    left = []

    def leave():
        left.append("left")
        session.sparkContext.cancelAllJobs()

    result = stuck_application.run(job_file, session, Host(leave=leave))
    assert left == []
    assert is_told(result), result
    assert written(job_file) == result
    assert session.range(10).count() == 10


@pytest.mark.parametrize("job_file", [5], indirect=True)
def test_a_slow_job_is_left_alone(session, job_file):
    """Longer than the limit as a whole, and something moves all the time."""
    result = stuck_application.run(job_file, session, tasks=3, milliseconds=3000)
    assert (result.error, result.rows) == (None, 3)


def test_a_job_that_does_not_end_when_it_is_cancelled_is_left_behind(
    session, job_file, monkeypatch
):
    """It hangs in the driver itself; whoever waits is answered."""
    monkeypatch.setattr("tideline.spark.stall_limit._CANCEL_SECONDS", 1)
    left = threading.Event()

    def hang(_spark, _job):
        assert left.wait(60)
        return SparkResult()

    seen = []

    def leave():
        seen.append(written(job_file))
        left.set()

    stuck_application.run(job_file, session, Host(leave=leave), hang)
    assert is_told(seen[0]), seen


def test_a_job_of_a_spark_connect_server_is_interrupted(connect_spark, job_file, monkeypatch):
    monkeypatch.setattr("tideline.launch.connect.application", lambda _: stuck_application.__file__)
    server = connect_spark.server
    with pytest.raises(Exception, match="ended with status 1"):
        SparkConnect(server.url, server.token).submit(job_file)
    assert is_told(written(job_file)), json.dumps(str(written(job_file)))
