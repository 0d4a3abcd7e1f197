"""`make bench-executors`: one topic landed by 1, 2 and 4 executors, as ratios; as root.

A standalone cluster of four workers of one core each, who share no disk with the driver but an
object store. A run's share of the cluster is Spark's own `spark.cores.max`. Writes its table into
docs/clusters.md, between the two comments that name this module.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.pairs import estimate
from bench.report import write_between
from bench.shapes import Shape, fill
from bench.tables import Table
from devstack.broker import Broker
from devstack.command_line import finished, tideline
from devstack.harness import StreamHarness
from devstack.object_store import S3Proxy
from devstack.spark_cluster import SparkCluster
from devstack.spark_events import Task

_COUNTS = (1, 1, 2, 4)
"""Executors of a round's runs; the second run by one shows the noise."""
_BUCKET = "lake"
_PAGE = Path("docs/clusters.md")


@dataclass(frozen=True, slots=True)
class Landing:
    """One run.

    Args:
        seconds: From the command's start to its end.
        tasks: Of Spark, all of which succeeded.
    """

    seconds: float
    tasks: list[Task]

    @property
    def spark_seconds(self) -> float:
        """From the first task's start to the last one's end."""
        began = min(task.began_ms for task in self.tasks)
        return (max(task.ended_ms for task in self.tasks) - began) / 1000

    @property
    def by_executor(self) -> list[int]:
        """Tasks of each executor, most first."""
        return sorted(Counter(task.executor for task in self.tasks).values(), reverse=True)


class Lander:
    """Broker, store and cluster.

    Args:
        folder: For everything.
        shape: The topic's contents.
    """

    def __init__(self, folder: Path, shape: Shape) -> None:
        self._shape = shape
        self._runs = 0
        self._broker = Broker(folder / "kafka", heap_mb=1024)
        self._store = S3Proxy(folder / "store")
        self._cluster = SparkCluster(folder / "cluster", workers=max(_COUNTS))
        self._folder = folder

    def start(self) -> Lander:
        """Start all three, and send the records."""
        try:
            self._broker.start()
            self._store.start()
            self._store.create_bucket(_BUCKET)
            self._cluster.start()
            fill(self._broker.bootstrap_servers, self._shape)
        except BaseException:
            self.stop()
            raise
        self._harness = StreamHarness(self._broker, self._folder, "executors")
        return self

    def stop(self) -> None:
        """Stop all three."""
        self._cluster.stop()
        self._store.stop()
        self._broker.stop()

    def land(self, executors: int) -> Landing:
        """Land the whole topic in a new table.

        Raises:
            RuntimeError: The run failed, or not all of its executors had tasks.
        """
        self._runs += 1
        name = f"run-{self._runs}"
        file = self._harness.stream_file(
            name=name,
            kafka={"connection": self._harness.connection, "topics": [self._shape.name]},
            table={"uri": f"s3a://{_BUCKET}/{name}", "connection": "store"},
            spark={"connection": "cluster"},
            limits={
                "max_records_per_run": self._shape.records,
                "max_records_per_partition": self._shape.records,
            },
        )
        variables = {
            **self._cluster.settings(
                name,
                spark_cores_max=str(executors),
                spark_scheduler_minRegisteredResourcesRatio="1.0",  # no task before all are there
            ),
            "AIRFLOW_CONN_STORE": json.dumps(self._store.connection()),
            "AIRFLOW_CONN_CLUSTER": json.dumps(self._cluster.connection),
        }
        began = time.perf_counter()
        command = tideline("run", file, "--json", env=variables)
        try:
            status, answer, errors = finished(command, 600)
        except BaseException:
            os.killpg(command.pid, signal.SIGKILL)
            raise
        seconds = time.perf_counter() - began
        (tasks,) = self._cluster.tasks(name) if status == 0 else ([],)
        found = Landing(seconds, tasks)
        if status != 0 or answer["rows"] != self._shape.records:
            raise RuntimeError(f"{name}: {answer} {errors[-2000:]}")
        if len(found.by_executor) != executors or not all(task.succeeded for task in tasks):
            raise RuntimeError(f"{name}: wanted {executors} executors: {found.by_executor}")
        return found


def executors(folder: Path, shape: Shape, rounds: int, minutes: float) -> Table:
    """Rounds of runs in a random order, then in the opposite one, after one that does not count.

    Args:
        folder: Empty.
        shape: The topic's contents.
        rounds: How many.
        minutes: After so many no round begins but the first one.
    """
    until = time.monotonic() + 60 * minutes
    found: list[list[Landing]] = [[] for _ in _COUNTS]
    lander = Lander(folder, shape).start()
    try:
        lander.land(max(_COUNTS))
        for order in _orders(rounds):
            if found[0] and time.monotonic() > until:
                break
            for which in order:
                landing = lander.land(_COUNTS[which])
                found[which].append(landing)
                print(_COUNTS[which], f"{landing.spark_seconds:.1f} s", landing.by_executor)
    finally:
        lander.stop()
    return _table(found, shape)


def _orders(rounds: int) -> list[list[int]]:
    chance = random.Random(1)
    orders: list[list[int]] = []
    while len(orders) < rounds:
        order = list(range(len(_COUNTS)))
        chance.shuffle(order)
        orders += [order, order[::-1]]
    return orders[:rounds]


def _table(found: list[list[Landing]], shape: Shape) -> Table:
    table = Table(
        "",
        f"{shape.records:,} records of {shape.value_bytes} B in {shape.partitions} partitions, a"
        f" new table each time, {len(found[0])} rounds, on {os.cpu_count()} cores that driver,"
        " broker and store use as well. A ratio is `time(1) / time(n)` of one round: the median,"
        " and a 95 % bootstrap interval. *Landing* is from the first task's start to the last one's"
        " end, *run* from the command's start to its end.",
        ("executors", "tasks of each", "landing", "landing, ratio", "run", "run, ratio"),
    )
    base = found[0]
    for which, runs in enumerate(found):
        landing = [run.spark_seconds for run in runs]
        whole = [run.seconds for run in runs]
        shares = sorted({"/".join(map(str, run.by_executor)) for run in runs})
        table.add(
            f"{_COUNTS[which]}{', again' if which == 1 else ''}",
            ", ".join(shares),
            f"{shape.records / median(landing) / 1000:.0f} k/s",
            str(estimate(landing, [run.spark_seconds for run in base])) if which else "",
            f"{median(whole):.0f} s",
            str(estimate(whole, [run.seconds for run in base])) if which else "",
        )
    return table


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(prog="bench.executors")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--minutes", type=float, default=30, help="no round begins after them")
    options = parser.parse_args()
    shape = Shape("executors", options.records, value_bytes=200, partitions=8)
    with tempfile.TemporaryDirectory(prefix="tideline-bench-") as folder:
        write_between(
            _PAGE,
            "bench.executors",
            executors(Path(folder), shape, options.rounds, options.minutes),
        )


if __name__ == "__main__":
    main()
