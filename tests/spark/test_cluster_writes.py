"""Executors that stop, die and come back while they write: the manifest decides (ADR 28).

Two executors of one core each, with speculation: Spark starts a second attempt of a slow task.
"""

import hashlib
import os
import signal
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from devstack.process import HOST, Server, free_ports, is_listening, wait_until
from tests.spark import cluster_write
from tideline.documents import load
from tideline.launch.jars import spark_jars
from tideline.launch.java import find_java
from tideline.launch.jvm import spark_home
from tideline.model.offsets import CoordinateRange
from tideline.model.spark_job import SparkResult
from tideline.table.delta_table import TargetTable
from tideline.table.schema import TableChange

pytestmark = pytest.mark.slow

TOPIC_ID = "11111111-1111-4111-8111-111111111111"
SENT = 2 * cluster_write.ROWS
CHANGE = TableChange("l", "p", "r", 1, (CoordinateRange("orders", TOPIC_ID, 0, 0, 0, SENT),))
SETTINGS = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.python.worker.reuse": "false",
}
HOSTS = (HOST, "127.0.0.2")
"""Spark starts no second attempt of a task on the host of the first one."""
SECONDS = 240


def at(host, port, web_port):
    return "--host", host, "--port", str(port), "--webui-port", str(web_port)


class Cluster:
    """A driver and two workers, which write into a table's folder.

    Args:
        folder: For everything.
        fault: What befalls the second task's first attempt.
    """

    def __init__(self, folder, fault):
        self._folder = folder
        self._servers = []
        self.told = folder / "told"
        self.told.mkdir()
        self.table = TargetTable(str(folder / "table"))
        self.table.create("orders", "l", ["topic_id"])
        self.attempt = folder / "table" / CHANGE.folder
        ports = free_ports(6)
        master = f"spark://{HOST}:{ports[0]}"
        self._start("master", *at(HOST, *ports[:2]))
        self._servers[0].wait_ready(lambda: is_listening(ports[0]), SECONDS)
        for number, host in enumerate(HOSTS):
            place = at(host, *ports[2 + 2 * number : 4 + 2 * number])
            size = ("-c", "1", "-m", "1g", "-d", folder / f"work-{number}")
            self._start("worker", *place, *size, master)
        options = [part for item in SETTINGS.items() for part in ("--conf", "=".join(item))]
        command = [spark_home() / "bin" / "spark-submit", "--master", master, *options]
        command += ["--jars", ",".join(map(str, spark_jars()))]
        command += [cluster_write.__file__, folder / "table", self.told, fault]
        log = folder / "driver.log"
        self.driver = Server.start("spark-submit", command, log, self._variables())

    def _start(self, what, *arguments):
        program = f"org.apache.spark.deploy.{what}.{what.title()}"
        name = f"{what}-{len(self._servers)}"
        command = [spark_home() / "bin" / "spark-class", program, *arguments]
        log = self._folder / f"{name}.log"
        self._servers.append(Server.start(name, command, log, self._variables()))

    def _variables(self):
        root = Path(__file__).parents[2]
        own = {
            "JAVA_HOME": str(find_java().home),
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(map(str, (root / "plugins", root))),
            "SPARK_HOME": str(spark_home()),
            "SPARK_LOCAL_IP": HOST,
        }
        return {**os.environ, **own}

    def executor(self):
        """The one that stands still with a file half written."""
        self._wait_for("executor")
        wait_until(lambda: any(is_second(f) for f in self.files()), "it writes nothing", SECONDS)
        return int((self.told / "executor").read_text())

    def result(self):
        """What the driver says of its job."""
        self._wait_for("result")
        return load(SparkResult, (self.told / "result").read_text(), "the result")

    def let_go(self):
        (self.told / "go").touch()

    def files(self):
        """Data files in the attempt's folder, named or not."""
        return sorted(self.attempt.rglob("*.parquet"))

    def stop(self):
        (self.told / "end").touch()
        try:
            wait_until(lambda: not self.driver.is_alive, "the driver does not end", 60)
        finally:
            for server in (self.driver, *reversed(self._servers)):
                server.stop()

    def _wait_for(self, name):
        self.driver.wait_ready((self.told / name).exists, SECONDS)


@pytest.fixture
def cluster(request, tmp_path):
    made = Cluster(tmp_path, request.param)
    yield made
    made.stop()


def land(cluster):
    """What the run does with the files: held against Spark's word, and added."""
    result = cluster.result()
    written = cluster.table.written(CHANGE, result)
    cluster.table.commit(CHANGE, written.files, 0)
    return {name: digest(cluster, name) for name in written.files}


def named(cluster, added):
    return {cluster.attempt.parent / name for name in added}


def digest(cluster, name):
    return hashlib.sha256((cluster.attempt.parent / name).read_bytes()).hexdigest()


def is_clean(cluster, added):
    """Each offset once; what was added is as it was; a vacuum removes whatever else lies there."""
    table = DeltaTable(cluster.table.uri)
    offsets = table.to_pyarrow_table(columns=["offset"]).column("offset").to_pylist()
    assert sorted(offsets) == list(range(SENT))
    assert {name: digest(cluster, name) for name in added} == added
    table.vacuum(0, enforce_retention_duration=False, dry_run=False, full=True)
    left = {f for f in cluster.attempt.rglob("*") if f.is_file() and f.suffix != ".crc"}
    assert left == named(cluster, added)


@pytest.mark.parametrize("cluster", ["stands still"], indirect=True)
def test_a_zombie_s_files_never_touch_those_that_were_added(cluster):
    """Its executor stops, Spark counts another attempt, the run adds the files, and it wakes."""
    zombie = cluster.executor()
    os.kill(zombie, signal.SIGSTOP)
    try:
        added = land(cluster)
        (late,) = (
            f for f in cluster.files() if str(f.relative_to(cluster.attempt.parent)) not in added
        )
        assert is_second(late)
        cluster.let_go()
    finally:
        os.kill(zombie, signal.SIGCONT)
    wait_until(lambda: not late.exists() or is_whole(late), "the zombie does not go on", 60)
    is_clean(cluster, added)


def is_second(file):
    return file.name.startswith("part-00001-")


def is_whole(file):
    try:
        return pq.ParquetFile(file).metadata.num_rows == cluster_write.ROWS
    except (OSError, ValueError):
        return False


@pytest.mark.parametrize("cluster", ["stands still"], indirect=True)
def test_an_executor_killed_while_it_writes_costs_no_row(cluster):
    """What it has left is half a file, which no manifest names."""
    os.kill(cluster.executor(), signal.SIGKILL)
    added = land(cluster)
    assert len(cluster.files()) == len(added) + 1
    is_clean(cluster, added)


@pytest.mark.parametrize("cluster", ["fails"], indirect=True)
def test_a_task_that_fails_is_tried_again_and_leaves_nothing(cluster):
    """It deletes its own file only."""
    added = land(cluster)
    assert len(cluster.files()) == len(added) == 2
    is_clean(cluster, added)
