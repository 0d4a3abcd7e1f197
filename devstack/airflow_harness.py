"""Streams in the folder that a real Airflow parses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from devstack.airflow_client import AirflowClient, Data
from devstack.harness import StreamHarness
from devstack.process import wait_until
from devstack.stack import Stack
from tideline.stream.stream import Stream


class AirflowHarness(StreamHarness):
    """A stream harness on a stack's broker, with the stack's own connection.

    Args:
        stack: Broker and Airflow, both running.
        folder: For the lake.
        name: Prefix of every name on the broker.
    """

    def __init__(self, stack: Stack, folder: Path, name: str) -> None:
        self.streams = stack.streams
        super().__init__(stack.broker, folder, name)

    @property
    def connection(self) -> str:
        """Id of the Kafka connection."""
        return "kafka_default"

    def stream_file(self, *args: Any, **kwargs: Any) -> Path:
        """Write a stream file into Airflow's folder; without retries, so that failures show."""
        kwargs.setdefault("airflow", {"retries": 0})
        path = super().stream_file(*args, **kwargs)
        target = self.streams / path.name
        target.write_text(path.read_text())
        return target


def started(harness: AirflowHarness, client: AirflowClient, name: str, **changes: Any) -> Stream:
    """A new stream whose Dag is parsed and active."""
    stream = harness.stream(name=name, **changes)
    client.wait_for_dag(name)
    client.pause(name, False)
    return stream


def states(client: AirflowClient, dag_id: str, run_id: str) -> dict[str, str]:
    """State of every task of a run."""
    return {name: t["state"] for name, t in client.tasks(dag_id, run_id).items()}


def by_lag(client: AirflowClient, dag_id: str) -> list[Data]:
    """The runs of a Dag that an asset's event has started."""
    return [run for run in client.runs(dag_id) if run["run_type"] == "asset_triggered"]


def ended(client: AirflowClient, dag_id: str, count: int, state: str = "success") -> None:
    """Wait until so many runs by lag have ended with a state."""

    def is_so() -> bool:
        return [run["state"] for run in by_lag(client, dag_id)].count(state) >= count

    wait_until(is_so, f"{dag_id}: {by_lag(client, dag_id)}", 200, every_seconds=0.5)
