"""Cold: a run as a process of its own, against the Python peer as one, by the batch's size."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.python_peer import land_in_own_process
from bench.shapes import SHAPES, Shape, fill
from bench.tables import Table, milliseconds
from devstack.broker import Broker
from devstack.command_line import finished, tideline
from devstack.harness import StreamHarness
from tideline.launch.local_driver import end_drivers

_TIMES = 3


def cold(folder: Path) -> Table:
    """Seconds from the command to its end, for three sizes.

    Args:
        folder: Empty.
    """
    subprocess.run([sys.executable, "-m", "devstack.class_archive"], check=True)  # as make setup
    broker = Broker(folder / "kafka", heap_mb=1024).start()
    table = Table(
        "Cold, by the size of the batch",
        "`tideline run` as it comes, from the command's start to its end, a new table each time."
        f" The first run starts Spark, the second finds it warm. Medians of {_TIMES} after one that"
        " does not count.",
        ("records", "first run", "second run", "Python peer", "peer / first", "peer / second"),
    )
    try:
        harness = StreamHarness(broker, folder, "bench", keeps_spark_warm=True)
        for name in ("small", "middle", "large-200-json", "large-100-json"):
            shape = SHAPES[name]
            fill(broker.bootstrap_servers, shape)
            ways: list[Callable[[], None]] = [
                lambda shape=shape: _land(harness, shape),
                lambda shape=shape: _land(harness, shape),
                lambda shape=shape: _land_with_peer(harness, shape),
            ]
            seconds: list[list[float]] = [[], [], []]
            for _ in range(_TIMES + 1):
                end_drivers()
                for which, way in enumerate(ways):
                    shutil.rmtree(folder / "lake", ignore_errors=True)
                    began = time.perf_counter()
                    way()
                    seconds[which].append(time.perf_counter() - began)
            first, second, peer = (median(s[1:]) for s in seconds)
            table.add(
                f"{shape.records:,}",
                *map(milliseconds, (first, second, peer)),
                f"{peer / first:.2f}",
                f"{peer / second:.2f}",
            )
    finally:
        end_drivers()
        broker.stop()
    return table


def _land(harness: StreamHarness, shape: Shape) -> None:
    os.environ["AIRFLOW_CONN_BENCH_SPARK"] = json.dumps({"conn_type": "spark", "host": "local[2]"})
    file = harness.stream_file(
        name="cold",
        kafka={"connection": harness.connection, "topics": [shape.name]},
        spark={"connection": "bench_spark"},
        limits={
            "max_records_per_run": shape.records,
            "max_records_per_partition": shape.records,
        },
    )
    status, answer, errors = finished(tideline("run", file, "--json"))
    if status != 0:
        raise RuntimeError(f"{answer} {errors}")


def _land_with_peer(harness: StreamHarness, shape: Shape) -> None:
    target = str(harness.folder / "lake" / "peer")
    land_in_own_process(harness.broker.bootstrap_servers, shape.name, shape.counts(), target)
