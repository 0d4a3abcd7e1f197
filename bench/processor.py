"""Processor seconds of an embedded Airflow, by part; and of this process with its JVMs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

import psutil

from devstack.airflow_services import EmbeddedAirflow

PARTS = ("tasks", "their supervisors", "scheduler", "Dag processor", "API server", "triggerer")
_SERVERS = {"dag-processor": "Dag processor", "api-server": "API server", "triggerer": "triggerer"}


def spent(airflow: EmbeddedAirflow) -> dict[str, float]:
    """User and system seconds since each service started, by part.

    A worker of the local executor supervises one task at a time, in a process of its own: what the
    worker has used itself is apart from what its ended children have used.
    """
    seconds = dict.fromkeys(PARTS, 0.0)
    for name, server in airflow.servers.items():
        with suppress(psutil.NoSuchProcess):
            root = psutil.Process(server.pid)
            if not name.startswith("scheduler"):
                seconds[_SERVERS[name]] += sum(_own(p) + _ended(p) for p in _tree(root))
                continue
            seconds["scheduler"] += _own(root)
            for worker in root.children():
                seconds["their supervisors"] += _own(worker)
                seconds["tasks"] += _ended(worker)
                seconds["tasks"] += sum(_own(p) + _ended(p) for p in worker.children(True))
    return seconds


def difference(after: Mapping[str, float], before: Mapping[str, float]) -> dict[str, float]:
    """Seconds between two readings."""
    return {part: after[part] - before[part] for part in PARTS}


def with_jvms() -> list[psutil.Process]:
    """This process, and the JVMs that it has started."""
    own = psutil.Process()
    return [own, *(p for p in own.children(recursive=True) if p.name() == "java")]


def used(processes: Iterable[psutil.Process]) -> float:
    """User and system seconds of some processes, without their children."""
    return sum(map(_own, processes))


def _tree(root: psutil.Process) -> Iterator[psutil.Process]:
    yield root
    yield from root.children(recursive=True)


def _own(process: psutil.Process) -> float:
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system)
    return 0.0


def _ended(process: psutil.Process) -> float:
    """What its ended and reaped children have used."""
    with suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.children_user + times.children_system)
    return 0.0
