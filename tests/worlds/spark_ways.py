"""A job that decodes, through each way to start Spark that is not this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from devstack.connect_server import ConnectServer
from devstack.spark_apps import InProcessSpark
from tests.worlds.raw_tables import decoded, rows_of
from tideline.documents import dump, load
from tideline.launch.connect import SparkConnect
from tideline.launch.submit import SparkSubmit, job_submission
from tideline.launch.target import Target
from tideline.model.spark_job import DecodeJob, DecodeResult

HEAP = "1g"
INTERPRETED, COMPILED = 1_000, 100_000
"""Offsets of a plan: a small job is interpreted, a larger one compiled."""

Way = Callable[[str, pytest.FixtureRequest], None]


def by_spark_submit(job_path: str, _request: pytest.FixtureRequest) -> None:
    """A driver of its own."""
    submission = job_submission(Target("local[2]"), job_path)
    conf = {**submission.conf, "spark.driver.memory": HEAP}
    SparkSubmit().run(replace(submission, conf=conf))


def by_connect(job_path: str, request: pytest.FixtureRequest) -> None:
    """A client of the server that all tests share."""
    server: ConnectServer = request.getfixturevalue("connect_server")
    assert server.server is not None
    command = Path(f"/proc/{server.server.pid}/cmdline").read_bytes()
    assert f"-Xmx{HEAP}".encode() in command.split(b"\0")
    SparkConnect(server.url, server.token).submit(job_path)


def comes_out_the_same(
    spark: InProcessSpark,
    way: Way,
    request: pytest.FixtureRequest,
    folder: Path,
    job_for: Callable[[Path, int], DecodeJob],
) -> None:
    """The rows and counts of a job are those that come out of this process.

    Args:
        spark: This process's.
        way: The other one; its heap is of 1 GB.
        request: The test's.
        folder: Empty.
        job_for: Writes raw files into a folder; the job for them, of so many offsets.
    """
    here, typed, bad = decoded(spark, job_for(folder / "here", INTERPRETED))
    assert typed
    assert bad
    job = job_for(folder / "there", COMPILED)
    path = folder / "there" / "job.json"
    path.write_text(dump(job))
    way(str(path), request)
    there = load(DecodeResult, Path(job.result_path).read_bytes(), "the result")
    counts = (there.error, there.classes, there.raw_rows, there.tombstones)
    assert counts == (None, here.classes, here.raw_rows, here.tombstones)
    assert rows_of(job.decoded) == typed
    assert rows_of(job.quarantine) == bad
