"""`make bench-fleet`: many topics from one file under a real Airflow, in both sizes and in a shell.

Four passes over all topics, of a record's value of 20 bytes: the first, one in which a tenth has
news, one that finds nothing, and one in which a topic is gone, one is created again and one has
lost records to retention. Shards first, then the same file without them, then the command. Writes
its table into docs/how-to/many-topics.md, between the two comments that name this module.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import yaml
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.admin import NewTopic

from bench.processor import spent
from bench.report import write_between
from bench.tables import Table
from devstack.airflow_client import AirflowClient
from devstack.postgres import Postgres
from devstack.process import wait_until
from devstack.stack import Stack
from tideline.launch.local_driver import warm_drivers

_RECORDS = 1000
_SETTINGS = {
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "600",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
    "AIRFLOW__CORE__PARALLELISM": "4",
}
_SHARDS = {"shards": 4, "threads": 4}


class World:
    """A stack with a fleet of topics.

    Args:
        folder: For all its files; empty.
        topics: How many.
        database_url: Airflow's.
    """

    def __init__(self, folder: Path, topics: int, database_url: str) -> None:
        self.stack = Stack.build(folder, database_url=database_url, settings=_SETTINGS)
        self.topics = [f"shop.t{n:03}" for n in range(topics)]
        self.file = self.stack.streams / "shop.yaml"

    def write(self, **changes: object) -> None:
        """The fleet's file."""
        stream = {
            "stream": "{topic}",
            "table": {"uri": f"{self.stack.lake}/{{topic}}"},
            "airflow": {"retries": 0},
        }
        fleet = {"fleet": "shop", "topic_pattern": r"shop\..*", "stream": stream, **changes}
        self.file.write_text(yaml.safe_dump(fleet))

    def create(self, *topics: str) -> None:
        """Create topics of one partition."""
        admin = self._admin()
        for first in range(0, len(topics), 50):
            admin.create_topics([NewTopic(name, 1, 1) for name in topics[first : first + 50]])
        admin.close()

    def send(self, *topics: str) -> None:
        """A thousand records to each."""
        producer = KafkaProducer(
            bootstrap_servers=self.stack.broker.bootstrap_servers, linger_ms=20
        )
        for topic in topics:
            for _ in range(_RECORDS):
                producer.send(topic, b"x" * 20, partition=0)
        producer.flush()
        producer.close()

    def trouble(self) -> None:
        """One topic is gone, one created again, one has lost what was not read; all have news."""
        gone, again, lost = self.topics[:3]
        admin = self._admin()
        admin.delete_topics([gone, again])
        wait_until(lambda: again not in admin.list_topics(), f"{again} is still there", 30)
        admin.close()
        self.create(again)
        self.send(*self.topics[1:])
        admin = self._admin()
        place = TopicPartition(lost, 0)
        admin.delete_records({place: -1})
        admin.close()

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.stack.broker.bootstrap_servers)

    def seconds(self) -> float:
        """Processor seconds of Airflow's services, their tasks, and the warm drivers."""
        total = sum(spent(self.stack.airflow).values())
        for driver in warm_drivers(self.stack.folder / "spark"):
            process = psutil.Process(driver.pid)
            for one in (process, *process.children(recursive=True)):
                times = one.cpu_times()
                total += times.user + times.system
        return total

    def megabytes(self) -> float:
        """Resident memory of the same processes, in MB."""
        roots = [server.pid for server in self.stack.airflow.servers.values()]
        roots += [driver.pid for driver in warm_drivers(self.stack.folder / "spark")]
        found = {p.pid: p for root in roots for p in _tree(root)}
        return sum(p.memory_info().rss for p in found.values() if p.is_running()) / 1e6


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def measure(topics: int, shapes: tuple[str, ...]) -> Table:
    """The passes in each shape."""
    table = Table(
        "A fleet",
        f"{topics} topics of one partition on one machine of {os.cpu_count()} cores, with broker,"
        " Airflow 3 (PostgreSQL, four tasks at once) and Spark on it. Processor seconds are of"
        " Airflow's services, all tasks and Spark, without broker and database; memory is all of"
        " it at the end of the pass. 1,000 records a topic that has news.",
        ("shape", "pass", "wall", "processor", "a topic", "memory", "topics"),
    )
    database = Postgres().start()
    url = database.create_database("fleet").render_as_string(hide_password=False)
    with tempfile.TemporaryDirectory(prefix="tl") as folder:
        world = World(Path(folder), topics, url)
        try:
            _passes(world, table, shapes)
        finally:
            world.stack.stop()
            database.stop()
    return table


def _passes(world: World, table: Table, shapes: tuple[str, ...]) -> None:
    world.write(**_SHARDS)
    world.stack.start()
    client = world.stack.airflow.client()
    world.create(*world.topics)
    world.send(*world.topics)
    client.wait_for_dag("shop", timeout_seconds=600)
    client.pause("shop", False)
    few = world.topics[10 : 10 + len(world.topics) // 10]
    by_shards = _by_shards(world, client)
    _row(world, table, "4 shards", "first", by_shards)
    for number in range(2):
        _row(world, table, "4 shards", "nothing new", by_shards)
        if not number:
            world.send(*few)
            _row(world, table, "4 shards", "a tenth has news", by_shards)
    if "shell" in shapes:
        for threads in (1, 4):
            name = f"`tideline run --parallel {threads}`"
            shell = _in_a_shell(world, threads)
            _row(world, table, name, "nothing new", shell)
            world.send(*few)
            _row(world, table, name, "a tenth has news", shell)
    world.trouble()
    _row(world, table, "4 shards", "three in trouble, all others with news", by_shards)
    if "dags" in shapes:
        world.write()
        client.wait_for_dag(world.topics[-1], timeout_seconds=900)
        for topic in world.topics:
            client.pause(topic, False)
        by_dags = _by_dags(world, client)
        _row(world, table, "a Dag for each", "nothing new", by_dags)
        world.send(*few)
        _row(world, table, "a Dag for each", "a tenth has news", by_dags)
        world.send(*world.topics[3:])  # the first three halt
        _row(world, table, "a Dag for each", "all others have news", by_dags)


def _row(world: World, table: Table, shape: str, what: str, run: Callable[[], str]) -> None:
    time.sleep(3)  # what services do after the last pass
    began, before = time.monotonic(), world.seconds()
    outcome = run()
    wall = time.monotonic() - began
    used = world.seconds() - before
    if shape.startswith("`"):
        used += float(outcome.partition(" ")[0])
        outcome = outcome.partition(" ")[2]
    each = f"{used / len(world.topics):.2f} s"
    memory = f"{world.megabytes():,.0f} MB"
    table.add(shape, what, f"{wall:.0f} s", f"{used:.0f} s", each, memory, outcome)


def _by_shards(world: World, client: AirflowClient) -> Callable[[], str]:
    def run() -> str:
        run_id = f"pass-{time.monotonic_ns()}"
        client.trigger("shop", run_id)
        client.wait_for_run("shop", run_id, timeout_seconds=1800)
        return _counted(world, run_id)

    return run


def _by_dags(world: World, client: AirflowClient) -> Callable[[], str]:
    def run() -> str:
        run_id = f"pass-{time.monotonic_ns()}"
        for topic in world.topics:
            client.trigger(topic, run_id)
        wait_until(lambda: _all_ended(world, client, run_id), "runs have not ended", 3600, 2)
        return _counted(world, run_id)

    return run


def _all_ended(world: World, client: AirflowClient, run_id: str) -> bool:
    runs = [client.run(topic, run_id) for topic in world.topics[-3:]]
    if any(run["state"] not in ("success", "failed") for run in runs):
        return False
    every = [client.run(topic, run_id)["state"] for topic in world.topics]
    return all(state in ("success", "failed") for state in every)


def _in_a_shell(world: World, threads: int) -> Callable[[], str]:
    def run() -> str:
        variables = {
            **os.environ,
            "AIRFLOW_CONN_KAFKA_DEFAULT": world.stack.kafka_connection,
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "TIDELINE_RUNTIME": str(world.stack.folder / "spark"),
        }
        command = [sys.executable, "-m", "tideline", "run", str(world.file)]
        command += ["--parallel", str(threads)]
        process = psutil.Popen(command, env=variables, stdout=subprocess.PIPE, text=True)
        out, _ = process.communicate()
        # its children are the drivers that it started, which are counted by themselves
        used = os.times().children_user + os.times().children_system
        told = out.splitlines()[-1].partition(": ")[2].partition(";")[0]
        own, _USED[0] = used - _USED[0], used
        return f"{own:.1f} {told}"

    _USED[0] = os.times().children_user + os.times().children_system
    return run


_USED = [0.0]


def _counted(world: World, run_id: str) -> str:
    """How many streams ended how under a run id, by their ledgers."""
    from tideline.stream.files import read_fleet
    from tideline.wiring import open_ledger

    counts: Counter[str] = Counter()
    for stream in read_fleet(world.file).streams:
        record = open_ledger(stream).find_run(run_id)
        counts["halted" if record is None else record.status] += 1
    names = {"nothing_to_do": "nothing to do", "proposed": "halted"}
    return ", ".join(f"{n} {names.get(status, status)}" for status, n in sorted(counts.items()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=300)
    parser.add_argument("--shapes", default="shell,dags")
    options = parser.parse_args()
    page = Path(__file__).parents[1] / "docs" / "how-to" / "many-topics.md"
    write_between(page, "bench.fleet", measure(options.topics, tuple(options.shapes.split(","))))
