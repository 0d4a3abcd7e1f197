"""Cold: a run as a process of its own, against two peers as such, by the size of the batch."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from bench.landing import land, land_with_spark, landing_file, write_archive
from bench.python_peer import land_in_own_process as land_with_python
from bench.shapes import SHAPES, Shape, fill
from bench.tables import Table, milliseconds
from devstack.broker import Broker
from devstack.harness import StreamHarness
from tideline.launch.local_driver import end_drivers

_TIMES = 3


def cold(folder: Path) -> Table:
    """Seconds from the command to its end, for four sizes.

    Args:
        folder: Empty.
    """
    write_archive()
    broker = Broker(folder / "kafka", heap_mb=1024).start()
    table = Table(
        "Cold, by the size of the batch",
        "`tideline run` as it comes, from the command's start to its end, a new table each time."
        " The first run starts Spark, the second finds it warm. AvailableNow is an application for"
        " spark-submit into Delta, the Python peer confluent-kafka with pyarrow and deltalake; both"
        f" write fewer columns. Medians of {_TIMES} after one that does not count.",
        (
            "records",
            *("first run", "second run", "AvailableNow", "Python peer"),
            *("AvailableNow / first", "/ second", "Python peer / first", "/ second"),
        ),
    )
    try:
        harness = StreamHarness(broker, folder, "bench", keeps_spark_warm=True)
        for name in ("small", "middle", "large-200-json", "large-100-json"):
            shape = SHAPES[name]
            fill(broker.bootstrap_servers, shape)
            ways = _ways(harness, shape)
            seconds: list[list[float]] = [[] for _ in ways]
            for _ in range(_TIMES + 1):
                end_drivers()
                for which, way in enumerate(ways):
                    shutil.rmtree(folder / "lake", ignore_errors=True)
                    began = time.perf_counter()
                    way()
                    seconds[which].append(time.perf_counter() - began)
            first, second, streaming, python = (median(s[1:]) for s in seconds)
            table.add(
                f"{shape.records:,}",
                *map(milliseconds, (first, second, streaming, python)),
                *(f"{p / ours:.2f}" for p in (streaming, python) for ours in (first, second)),
            )
    finally:
        end_drivers()
        broker.stop()
    return table


def _ways(harness: StreamHarness, shape: Shape) -> list[Callable[[], None]]:
    """Ours twice, then the peers."""
    servers, lake = harness.broker.bootstrap_servers, harness.folder / "lake"
    file = landing_file(harness, shape, "cold")
    return [
        lambda: land(file),
        lambda: land(file),
        lambda: land_with_spark(servers, shape.name, lake / "available-now"),
        lambda: land_with_python(servers, shape.name, shape.counts(), str(lake / "python")),
    ]
