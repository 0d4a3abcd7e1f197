"""Where the time of a small run goes: Spark started for it, a warm driver, nothing to land."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from bench.landing import land
from bench.shapes import SHAPES, fill
from bench.tables import Table, milliseconds
from devstack.broker import Broker
from devstack.harness import StreamHarness
from tideline.launch.local_driver import end_drivers

_TIMES = 5
_PHASES = (
    ("start the process, take the lease", "lease:live"),
    ("look, create the table", "table:created"),
    ("plan", "plan:proposed"),
    ("detect and freeze", "detect:frozen"),
    ("lease, fence, check", "ingest:leased"),
    ("start Spark or its client", "spark:started"),
    ("plan the read", "spark:writing"),
    ("read and write", "spark:written"),
    ("end Spark, count what it wrote", "ingest:written"),
    ("check table and log", "table:committing"),
    ("commit, find the commit", "ingest:committed"),
    ("find the landing, count", "verify:verified"),
    ("move the head", "advance:advanced"),
    ("end the process", "end"),
)
_WAYS = ("Spark started for it", "warm driver", "nothing to land")


def breakdown(folder: Path) -> Table:
    """Phases of `tideline run` for 10,000 records in a new table.

    Args:
        folder: Empty.
    """
    broker = Broker(folder / "kafka").start()
    try:
        fill(broker.bootstrap_servers, SHAPES["small"])
        harness = StreamHarness(broker, folder, "bench", keeps_spark_warm=True)
        found: dict[str, list[dict[str, float]]] = {way: [] for way in _WAYS}
        for number in range(_TIMES + 1):
            for way, changes in (
                ("Spark started for it", {"keep_warm_seconds": 0}),
                ("warm driver", {}),
            ):
                name = f"{'warm' if not changes else 'cold'}{number}"
                file = _stream_file(harness, name, changes)
                found[way].append(_run(folder, file, "one"))
            found["nothing to land"].append(_run(folder, file, "two"))
    finally:
        end_drivers()
        broker.stop()
    table = Table(
        "A run of 10,000 records",
        f"`tideline run` as a process of its own into a new table; medians of {_TIMES} after one"
        " that does not count.",
        ("phase", *_WAYS),
    )
    timed = {way: times[1:] for way, times in found.items()}
    for title, place in _PHASES:
        table.add(title, *(_median([t.get(place) for t in timed[way]]) for way in _WAYS))
    table.add("all", *(_median([sum(t.values()) for t in timed[way]]) for way in _WAYS))
    return table


def _median(seconds: list[float | None]) -> str:
    known = [s for s in seconds if s is not None]
    return milliseconds(median(known)) if known else ""


def _stream_file(harness: StreamHarness, name: str, spark: dict[str, int]) -> Path:
    return harness.stream_file(
        name=name,
        kafka={"connection": harness.connection, "topics": [SHAPES["small"].name]},
        spark={"connection": "bench_spark", **spark},
    )


def _run(folder: Path, file: Path, run_id: str) -> dict[str, float]:
    """Seconds up to each place, from the one before it that was passed."""
    trace = folder / "trace"
    trace.unlink(missing_ok=True)
    began = time.time()
    land(file, {"TIDELINE_TRACE": str(trace)}, "--run-id", run_id)
    ended = time.time()
    reached = {"end": ended}
    for line in trace.read_text().splitlines():
        at, place = line.split()
        reached.setdefault(place, float(at))
    found, last = {}, began
    for _, place in _PHASES:
        if place in reached:
            found[place] = reached[place] - last
            last = reached[place]
    return found
