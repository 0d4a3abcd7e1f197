"""Processes as users start them, which the cold benchmarks time: `tideline run`, and a peer."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bench.applications import available_now
from bench.shapes import Shape
from devstack.command_line import finished, tideline
from devstack.harness import StreamHarness
from devstack.spark_apps import DELTA
from tideline.launch.jars import delta_jars, spark_jars
from tideline.launch.jvm import prepare_archives
from tideline.launch.submit import environment

LOCAL_SPARK = {"AIRFLOW_CONN_BENCH_SPARK": json.dumps({"conn_type": "spark", "host": "local[2]"})}
"""The Spark connection `bench_spark`, as an environment variable."""


def write_archive() -> None:
    """Have the archive of classes in place, as it is after `make setup`."""
    prepare_archives()


def landing_file(
    harness: StreamHarness, shape: Shape, name: str, spark: Mapping[str, object] | None = None
) -> Path:
    """A stream file whose first run lands all records of a shape.

    Args:
        harness: Has the broker that holds the records.
        shape: What is landed.
        name: Of stream and table.
        spark: More keys under `spark`.
    """
    return harness.stream_file(
        name=name,
        kafka={"connection": harness.connection, "topics": [shape.name]},
        spark={"connection": "bench_spark", **(spark or {})},
        limits={
            "max_records_per_run": shape.records,
            "max_records_per_partition": shape.records,
        },
    )


def land(file: Path, variables: Mapping[str, str] | None = None, *options: str) -> None:
    """`tideline run`, which has to succeed.

    Args:
        file: The stream file.
        variables: Of the environment, besides this process's.
        options: Of the command.
    """
    env = {**LOCAL_SPARK, **(variables or {})}
    status, answer, errors = finished(tideline("run", file, *options, "--json", env=env), 900)
    if status != 0:
        raise RuntimeError(f"{file.stem}: {answer} {errors}")


def land_with_spark(servers: str, topic: str, folder: Path) -> None:
    """AvailableNow into a Delta table, as somebody runs it who has Spark and sets nothing.

    Args:
        servers: Of the broker.
        topic: Read from its start to its present end.
        folder: For table and checkpoint.
    """
    spark_submit(available_now.__file__, servers, topic, str(folder))


def spark_submit(application: str, *arguments: str) -> None:
    """An application of somebody who has Spark and Delta, and sets nothing; it has to succeed.

    Args:
        application: Its file.
        arguments: Its own.
    """
    command = [
        *("spark-submit", "--master", "local[2]"),
        *("--jars", ",".join(map(str, [*spark_jars(), *delta_jars()]))),
        *(part for item in DELTA.items() for part in ("--conf", "=".join(item))),
        application,
        *arguments,
    ]
    variables = {**os.environ, **environment("local[2]")}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        name = Path(application).stem
        raise RuntimeError(f"{name}: {done.stdout[-500:]} {done.stderr[-2000:]}")
