"""A run of `tideline run` as a user has it, which the cold benchmarks time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from bench.shapes import Shape
from devstack.command_line import finished, tideline
from devstack.harness import StreamHarness

LOCAL_SPARK = {"AIRFLOW_CONN_BENCH_SPARK": json.dumps({"conn_type": "spark", "host": "local[2]"})}
"""The Spark connection `bench_spark`, as an environment variable."""


def write_archive() -> None:
    """Have the archive of classes in place, as `make setup` does."""
    subprocess.run([sys.executable, "-m", "devstack.class_archive"], check=True)


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


def land(file: Path, environment: Mapping[str, str] | None = None, *options: str) -> None:
    """`tideline run`, which has to succeed.

    Args:
        file: The stream file.
        environment: More variables.
        options: Of the command.
    """
    env = {**LOCAL_SPARK, **(environment or {})}
    status, answer, errors = finished(tideline("run", file, *options, "--json", env=env), 900)
    if status != 0:
        raise RuntimeError(f"{file.stem}: {answer} {errors}")
