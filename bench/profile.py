"""Where the executors' time goes in a large landing: samples of their stacks, by who runs."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

from bench.shapes import SHAPES, fill
from bench.sides import BenchHarness, Job, tideline
from bench.tables import Table
from devstack.broker import Broker
from devstack.spark_apps import InProcessSpark
from tideline.launch.java import find_java

_THREADS = "Executor task launch"
_WHO = (
    ("wait for the broker", ("sun.nio.ch.EPoll.wait", "jdk.internal.misc.Unsafe.park")),
    ("compress (zstd)", ("com.github.luben.zstd",)),
    ("fetch and unpack Kafka's batches", ("org.apache.kafka.", "org.apache.spark.sql.kafka010.")),
    ("encode Parquet", ("org.apache.parquet.",)),
    ("Parquet's writer in Spark", ("org.apache.spark.sql.execution.datasources.parquet.",)),
    ("Delta: statistics, constraint, files", ("org.apache.spark.sql.delta.",)),
    ("make and copy rows", ("org.apache.spark.sql.catalyst.", "org.apache.spark.unsafe.")),
    ("write files", ("org.apache.hadoop.", "java.io.File")),
    ("the rest of Spark", ("org.apache.spark.",)),
)


def profile(folder: Path) -> Table:
    """Samples of the second landing of the large shape, by the first known name on the stack.

    Args:
        folder: Empty.
    """
    shape = SHAPES["large-100-json"]
    broker = Broker(folder / "kafka", heap_mb=1024).start()
    spark = InProcessSpark(is_small=False)
    recording = folder / "landing.jfr"
    try:
        fill(broker.bootstrap_servers, shape)
        harness = BenchHarness(broker, folder, "bench")
        for name in ("warms-up", "counts"):
            target = folder / name
            target.mkdir()
            if name == "counts":
                jvm = spark.session._jvm
                pid = str(jvm.java.lang.ProcessHandle.current().pid())
                _jcmd(pid, "JFR.start", "name=bench", "settings=profile")
            tideline(Job(harness, spark, shape, target))
        _jcmd(pid, "JFR.dump", "name=bench", f"filename={recording}")
    finally:
        spark.stop()
        broker.stop()
    samples = _samples(recording)
    table = Table(
        "Profile of a large landing",
        f"{shape.records:,} records of {shape.value_bytes} B, warm; {sum(samples.values()):,}"
        " samples of the executor's threads (JDK Flight Recorder), by the topmost name of this list"
        " on the stack.",
        ("who", "share"),
    )
    for who, count in samples.most_common():
        table.add(who, f"{count / sum(samples.values()):.0%}")
    return table


def _jcmd(*arguments: str) -> None:
    subprocess.run([_tool("jcmd"), *arguments], check=True, capture_output=True)


def _tool(name: str) -> str:
    return str(find_java().home / "bin" / name)


def _samples(recording: Path) -> Counter[str]:
    kinds = "jdk.ExecutionSample,jdk.NativeMethodSample"
    command = [_tool("jfr"), "print", "--json", "--stack-depth", "64", "--events", kinds, recording]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: Counter[str] = Counter()
    for event in json.loads(said)["recording"]["events"]:
        values = event["values"]
        if (values["sampledThread"] or {}).get("javaName", "").startswith(_THREADS):
            found[_who(values["stackTrace"]["frames"])] += 1
    return found


def _who(frames: list[dict]) -> str:
    for frame in frames:
        method = frame["method"]
        name = f"{method['type']['name'].replace('/', '.')}.{method['name']}"
        for who, beginnings in _WHO:
            if name.startswith(beginnings):
                return who
    return "other"
