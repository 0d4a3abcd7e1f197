"""What Airflow adds: a Dag run against the same steps as a script."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path
from statistics import median

from bench.landing import LOCAL_SPARK, land
from bench.shapes import SHAPES, fill
from bench.tables import Table, judged, milliseconds
from devstack.airflow_harness import AirflowHarness
from devstack.stack import Stack
from tideline.launch.local_driver import end_drivers

_TIMES = 5


def dag_run(folder: Path) -> Table:
    """Runs of 10,000 records through a warm driver, by Airflow and by `tideline run`.

    Args:
        folder: Empty.
    """
    stack = Stack.build(folder / "stack", settings=LOCAL_SPARK)
    try:
        stack.start()
        fill(stack.broker.bootstrap_servers, SHAPES["small"])
        by_airflow, by_script = _timed(stack, folder)
    finally:
        stack.stop()
        end_drivers()
    table = Table(
        "A run in Airflow",
        f"10,000 records into a new table, as it comes, Spark being warm; medians of {_TIMES} after"
        " one that does not count. Six tasks, of which `resolve_reset` is skipped.",
        ("Dag run", "script", "difference per task", "pass", "aim", "verdict"),
    )
    more = (median(by_airflow) - median(by_script)) / 6
    table.add(
        milliseconds(median(by_airflow)),
        milliseconds(median(by_script)),
        milliseconds(more),
        "<= 1,500 ms",
        "<= 800 ms",
        judged(more, 1.5, 0.8),
    )
    return table


def _timed(stack: Stack, folder: Path) -> tuple[list[float], list[float]]:
    client = stack.airflow.client()
    harness = AirflowHarness(stack, folder, "bench")
    by_airflow, by_script = [], []
    for number in range(_TIMES + 1):
        file = harness.stream_file(
            name=f"dag{number}",
            kafka={"topics": [SHAPES["small"].name]},
            spark={"connection": "bench_spark", "keep_warm_seconds": 900},
        )
        name = file.stem
        client.wait_for_dag(name)
        client.pause(name, False)
        client.trigger(name, "one")
        if client.wait_for_run(name, "one") != "success":
            raise RuntimeError(f"{name}: {client.tasks(name, 'one')}")
        run = client.run(name, "one")
        by_airflow.append(_at(run["end_date"]) - _at(run["start_date"]))
        other = harness.stream_file(
            name=f"script{number}",
            kafka={"topics": [SHAPES["small"].name]},
            spark={"connection": "bench_spark", "keep_warm_seconds": 900},
        )
        began = time.perf_counter()
        land(other)
        by_script.append(time.perf_counter() - began)
    return by_airflow[1:], by_script[1:]


def _at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
