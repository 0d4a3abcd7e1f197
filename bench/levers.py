"""What each lever is worth: a run as it comes, and with one of them taken out.

Seconds of wall and of processor, the latter of the whole tree: command, driver and JVM.
"""

from __future__ import annotations

import ctypes
import json
import os
import random
import shutil
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import psutil

from bench.landing import land, landing_file, write_archive
from bench.shapes import SHAPES, Shape, fill
from bench.tables import Table
from devstack.broker import Broker
from devstack.harness import StreamHarness
from tideline.launch.jars import spark_jars

_ROUNDS = 3
_SHAPES = ("small", "large-200-json")
_PR_SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True, slots=True)
class Way:
    """A run, and what is different about it.

    Args:
        name: As the report says it.
        environment: Variables; `{empty}` stands for an empty folder, `{jars}` for that of the jars.
        spark: Keys under `spark` of the stream file.
        kafka: Properties of the Kafka connection; the source gets them as well.
    """

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)
    spark: Mapping[str, object] = field(default_factory=dict)
    kafka: Mapping[str, object] = field(default_factory=dict)


_JAVA = "_JAVA_OPTIONS"
_NO_ARCHIVE = {"TIDELINE_CACHE": "{empty}", "TIDELINE_SPARK_JARS": "{jars}"}
_SUBMIT = {"SPARK_CONF_DIR": "{empty}"}
_AT_ONCE = "-XX:CompileThresholdScaling=1"
WAYS = (
    Way("as it comes"),
    Way("without the class archive", _NO_ARCHIVE),
    Way("without late compilation", {_JAVA: _AT_ONCE}),
    Way("without archive and late compilation", {**_NO_ARCHIVE, _JAVA: _AT_ONCE}),
    Way("with the quick compiler alone", {_JAVA: "-XX:TieredStopAtLevel=1"}),
    Way("with a young heap that grows", {_JAVA: "-XX:NewSize=11m"}),
    Way("with the parallel collector", {_JAVA: "-XX:-UseSerialGC -XX:+UseParallelGC"}),
    Way("without a warm driver", spark={"keep_warm_seconds": 0}),
    Way("spark-submit instead", _SUBMIT),
    Way("fetches as Kafka's client has them", kafka={
        "fetch.max.bytes": 52_428_800,
        "max.partition.fetch.bytes": 1_048_576,
        "max.poll.records": 500,
        "receive.buffer.bytes": 65_536,
    }),
)  # fmt: skip
"""The first one is compared with; each other one has one lever less, or another in its place.

Archive, late compilation and quick compiler also differ between a JVM that is started and one that
is warm. The levers of session and writer have no key: `spark/session.py` sets them for all.
"""


def levers(folder: Path, rounds: int = _ROUNDS) -> Table:
    """Seconds of a first and a second run, by the lever that is missing.

    Args:
        folder: Empty.
        rounds: How often each is timed, after one round that does not count.
    """
    _adopt_drivers()
    write_archive()
    broker = Broker(folder / "kafka", heap_mb=1024).start()
    table = Table(
        "The share of each lever",
        "`tideline run` into a new table, from the command's start to its end, as it comes and"
        " with one lever taken out or exchanged. The first run starts Spark, the second comes right"
        " after it; with spark-submit or no warm driver both start it. Processor: seconds of the"
        " command, the driver and its JVM up to the command's end, or to the driver's where that"
        " is not kept; the broker's do not count. The archive of classes is there before, except"
        f" where it is taken out. Medians of {rounds} rounds in random order after one that does"
        " not count.",
        ("records", "run", "first: wall", "processor", "second: wall", "processor"),
    )
    chance = random.Random(1)
    try:
        harness = StreamHarness(broker, folder, "bench", keeps_spark_warm=True)
        for name in _SHAPES:
            shape = SHAPES[name]
            fill(broker.bootstrap_servers, shape)
            found: dict[str, list[tuple[float, ...]]] = defaultdict(list)
            for number in range(rounds + 1):
                for way in chance.sample(WAYS, len(WAYS)):
                    taken = _both(harness, shape, way)
                    print(f"  {shape.records:,} {way.name}: {taken}", flush=True)
                    found[way.name] += [taken] if number else []
            for way in WAYS:
                columns = zip(*found[way.name], strict=True)
                cells = (f"{median(column):.2f} s" for column in columns)
                table.add(f"{shape.records:,}", way.name, *cells)
    finally:
        broker.stop()
    return table


def _both(harness: StreamHarness, shape: Shape, way: Way) -> tuple[float, ...]:
    """Wall and processor seconds of the first run, then of the second."""
    empty, runtime = harness.folder / "empty", harness.folder / "run"
    for left in (empty, runtime):
        shutil.rmtree(left, ignore_errors=True)
        left.mkdir(mode=0o700)
    places = {"empty": str(empty), "jars": str(spark_jars()[0].parent)}
    environment = {k: v.format(**places) for k, v in way.environment.items()}
    environment["TIDELINE_RUNTIME"] = str(runtime)
    harness.connect(harness.broker.bootstrap_servers)
    if way.kafka:
        settings = {"bootstrap.servers": harness.broker.bootstrap_servers, **way.kafka}
        told = {"conn_type": "kafka", "extra": settings}
        environment[f"AIRFLOW_CONN_{harness.connection.upper()}"] = json.dumps(told)
    try:
        return (
            *_run(harness, shape, way, environment, runtime),
            *_run(harness, shape, way, environment, runtime),
        )
    finally:
        _kill(runtime)


def _run(
    harness: StreamHarness, shape: Shape, way: Way, environment: Mapping[str, str], runtime: Path
) -> tuple[float, float]:
    shutil.rmtree(harness.folder / "lake", ignore_errors=True)
    file = landing_file(harness, shape, "levers", way.spark)
    before = _used(runtime)
    began = time.perf_counter()
    land(file, environment)
    wall = time.perf_counter() - began
    if way.spark.get("keep_warm_seconds") == 0:
        _wait_for_drivers(runtime)
    return round(wall, 2), round(_used(runtime) - before, 2)


def _adopt_drivers() -> None:
    """Become the parent of drivers that this process's children start (prctl(2)).

    Of a child that has ended, the kernel knows what it and its children have used.
    """
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise RuntimeError("PR_SET_CHILD_SUBREAPER is refused: drivers cannot be waited for")


def _wait_for_drivers(runtime: Path) -> None:
    """Until they have ended; one that has already ended counts only when it was waited for."""
    for process in psutil.Process().children():
        is_driver = _address(process).startswith(f"{runtime}/")
        if is_driver or process.status() == psutil.STATUS_ZOMBIE:
            process.wait(60)


def _drivers(runtime: Path) -> list[psutil.Process]:
    """Drivers whose socket lies in a folder."""
    return [
        process
        for process in psutil.Process().children()
        if process.status() != psutil.STATUS_ZOMBIE and _address(process).startswith(f"{runtime}/")
    ]


def _address(process: psutil.Process) -> str:
    with suppress(psutil.Error):  # it has just ended
        command = process.cmdline()
        return command[-2] if len(command) > 2 else ""
    return ""


def _used(runtime: Path) -> float:
    """Seconds of a processor: of all children that have ended, and of the drivers that run."""
    ended = os.times()
    seconds = ended.children_user + ended.children_system
    for driver in _drivers(runtime):
        for process in (driver, *driver.children(recursive=True)):
            times = process.cpu_times()
            seconds += times.user + times.system
    return seconds


def _kill(runtime: Path) -> None:
    """End the drivers at once: writing an archive is not part of what is compared."""
    for driver in _drivers(runtime):
        family = (driver, *driver.children(recursive=True))
        for process in family:
            process.kill()
        for process in family:  # a JVM becomes our child when its driver is gone
            process.wait(60)
