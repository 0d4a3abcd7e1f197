"""Streams in the folder that a real Airflow parses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from devstack.airflow_client import AirflowClient
from devstack.harness import StreamHarness
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
