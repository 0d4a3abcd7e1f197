"""What a Dag run costs that finds nothing new."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median

import yaml
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

from bench.processor import PARTS, difference, spent
from bench.tables import Table, judged
from devstack.airflow_client import AirflowClient
from devstack.airflow_services import EmbeddedAirflow
from devstack.process import wait_until
from devstack.stack import Stack

_TOPIC = "idle"
_TIMES = 7
_QUIET = 20.0
"""Seconds for which services without a run are measured."""
_BEFORE = 2.8
"""Processor seconds of one idle run when each of four tasks was a process with its own imports."""
_NOTHING = """\
from airflow.plugins_manager import AirflowPlugin

class Nothing(AirflowPlugin):
    name = "tideline"
"""
"""Airflow takes the first plugin of a name: this one comes before the package's entry point."""
_SETTINGS = {
    # Parses are measured by themselves.
    "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600",
    "AIRFLOW__DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
}


def idle_run(folder: Path) -> Table:
    """Processor seconds of one idle Dag run by part, with the plugin and without.

    Args:
        folder: Empty.
    """
    (folder / "no-plugins").mkdir()
    (folder / "no-plugins" / "nothing.py").write_text(_NOTHING)
    without = {"AIRFLOW__CORE__PLUGINS_FOLDER": str(folder / "no-plugins")}
    ours = _one_stream(folder / "with", {})
    others = _one_stream(folder / "without", without)
    table = Table(
        "An idle run in Airflow",
        f"Processor seconds of one Dag run that finds nothing new; medians of {_TIMES}. What the"
        " services use while no run is there is taken off, but for the last line. The Dag"
        " processor's parses are left out: they do not depend on runs.",
        ("part", "as it comes", "without `tideline_plugin.py`", "pass", "aim", "verdict"),
    )
    for part in ours:
        if part not in ("in all", _IDLE):
            table.add(part, f"{ours[part]:.2f} s", f"{others[part]:.2f} s", "", "", "")
    passes, aim = _BEFORE / 2, _BEFORE / 3
    table.add(
        "in all",
        f"{ours['in all']:.2f} s",
        f"{others['in all']:.2f} s",
        f"<= {passes:.1f} s, half of {_BEFORE} s",
        f"<= {aim:.1f} s",
        judged(ours["in all"], passes, aim),
    )
    table.add(_IDLE, f"{ours[_IDLE]:.2f} s", f"{others[_IDLE]:.2f} s", "", "", "")
    return table


_IDLE = "scheduler without a run, each second"


def _one_stream(folder: Path, settings: Mapping[str, str]) -> dict[str, float]:
    stack = Stack.build(folder, settings={**_SETTINGS, **settings})
    try:
        client = _start(stack, ["alone"])
        client.pause("alone", False)  # the schedule's last interval is run at once
        _wait_for_runs(client, ["alone"], None)
        rate = _quiet_rate(stack.airflow)
        found = [_measured(stack.airflow, client, n, rate) for n in range(_TIMES)]
    finally:
        stack.stop()
    return {part: median(one[part] for one in found) for part in found[0]} | {
        _IDLE: rate["scheduler"]
    }


def _measured(
    airflow: EmbeddedAirflow, client: AirflowClient, number: int, rate: Mapping[str, float]
) -> dict[str, float]:
    run_id = f"idle-{number}"
    began, before = time.monotonic(), spent(airflow)
    _run(client, ["alone"], run_id)
    time.sleep(1)  # what the scheduler does after the end
    used = difference(spent(airflow), before)
    taken = time.monotonic() - began
    net = {part: used[part] - rate[part] * taken for part in PARTS if part != "Dag processor"}
    return {**net, "in all": sum(net.values())}


def _start(stack: Stack, names: list[str]) -> AirflowClient:
    """Start a stack with a stream file for each name, all on one topic without records."""
    for name in names:
        stream = {
            "stream": name,
            "kafka": {"topics": [_TOPIC]},
            "table": {"uri": str(stack.lake / name)},
            "schedule": "@yearly",  # nothing is due while it is measured
        }
        (stack.streams / f"{name}.yaml").write_text(yaml.safe_dump(stream))
    stack.start()
    admin = KafkaAdminClient(bootstrap_servers=stack.broker.bootstrap_servers)
    admin.create_topics([NewTopic(_TOPIC, 3, 1)])
    admin.close()
    client = stack.airflow.client()
    client.wait_for_dag(names[-1], timeout_seconds=600)
    return client


def _quiet_rate(airflow: EmbeddedAirflow) -> dict[str, float]:
    """Processor seconds per second, by part, while no run is there."""
    time.sleep(2)
    before = spent(airflow)
    time.sleep(_QUIET)
    return {part: s / _QUIET for part, s in difference(spent(airflow), before).items()}


def _run(client: AirflowClient, names: list[str], run_id: str) -> None:
    for name in names:
        client.trigger(name, run_id)
    _wait_for_runs(client, names, run_id)


def _wait_for_runs(client: AirflowClient, names: list[str], run_id: str | None) -> None:
    """Wait until each stream has a run of that id, or of any, that has ended well."""

    def have_ended() -> bool:
        runs = [r for r in client.runs("~") if run_id in (None, r["dag_run_id"])]
        if failed := [r["dag_id"] for r in runs if r["state"] == "failed"]:
            raise RuntimeError(f"failed: {failed}")
        return {r["dag_id"] for r in runs if r["state"] == "success"} >= set(names)

    wait_until(have_ended, "runs have not ended", 900, every_seconds=1)
