"""Broker and Airflow together, for `make up`, `make down`, the demo and the tests."""

from __future__ import annotations

import json
import logging
import os
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devstack.airflow_services import EmbeddedAirflow
from devstack.broker import Broker
from devstack.process import Server
from devstack.sample import ProducerLog
from tideline.contract.answers import StackFile, StackProcess
from tideline.errors import BadInput, TidelineError
from tideline.launch.local_driver import end_drivers
from tideline.launch.progress import working
from tideline.ledger.leases import process_identity

_MINIMUM_FREE_BYTES = 2 * 1024**3
_RUNTIME = "spark"


@dataclass(frozen=True, slots=True)
class Stack:
    """A broker and an Airflow, and the folders that they use.

    Args:
        folder: Holds the broker's data, Airflow's home, stream files and tables.
        broker: The Kafka broker, of its own or one that others use as well.
        airflow: Airflow, with connections to the broker and to a local Spark.
        kafka_connection: Airflow connection (JSON) to the broker.
        owns_broker: Whether the broker starts and stops with the stack.
    """

    folder: Path
    broker: Broker
    airflow: EmbeddedAirflow
    kafka_connection: str
    owns_broker: bool = True

    @classmethod
    def build(
        cls,
        folder: Path,
        database_url: str | None = None,
        schedulers: int = 1,
        settings: Mapping[str, str] | None = None,
        broker: Broker | None = None,
        users: Mapping[str, str] | None = None,
    ) -> Stack:
        """A stack on free ports, not started yet.

        Args:
            folder: For all its files; created if it is missing.
            database_url: Airflow's metadata database; a SQLite file in the folder when None.
            schedulers: Number of Airflow's schedulers.
            settings: More environment variables for Airflow's services.
            broker: One that runs already and outlives the stack; one of its own when None.
            users: More users of Airflow, each with a role, as `EmbeddedAirflow` takes them.

        Raises:
            BadInput: Less than 2 GiB of disk space, or more than one scheduler on SQLite.
        """
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < _MINIMUM_FREE_BYTES:
            raise BadInput(
                f"{folder}: {free / 1024**3:.1f} GiB of disk space are free, the stack needs 2 GiB:"
                " delete files or use another folder"
            )
        streams = folder / "streams"
        streams.mkdir(exist_ok=True)
        owns_broker = broker is None
        broker = broker or Broker(folder / "kafka")
        extra = {"bootstrap.servers": broker.bootstrap_servers}
        kafka = json.dumps({"conn_type": "kafka", "extra": extra})
        connections = {
            "AIRFLOW_CONN_KAFKA_DEFAULT": kafka,
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        }
        environment = {**connections, **_runtime(folder), **(settings or {})}
        airflow = EmbeddedAirflow(
            folder / "airflow", streams, environment, database_url, schedulers, users
        )
        return cls(folder, broker, airflow, kafka, owns_broker)

    @property
    def streams(self) -> Path:
        """Folder of stream files."""
        return self.folder / "streams"

    @property
    def dags(self) -> Path:
        """Folder for more Dags; the repository's `dags/` is parsed in any case."""
        return self.airflow.dags

    @property
    def lake(self) -> Path:
        """Folder for tables."""
        return self.folder / "lake"

    def start(self) -> Stack:
        """Start its own broker and Airflow; when one of them does not start, stop both.

        Raises:
            BadInput: Java or the jars are missing.
            ServiceAway: A service is not ready in time; the message holds the end of its log.
        """
        try:
            if self.owns_broker:
                self.broker.start()
            self.airflow.start()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop Airflow, its tasks' Spark, then its own broker; the files stay."""
        self.airflow.stop()
        end_drivers(self.folder / _RUNTIME, archived=False)
        if self.owns_broker:
            self.broker.stop()

    def facts(self) -> StackFile:
        """The content of `.stack.json`: addresses, login and processes."""
        servers = [*self.airflow.servers.values()]
        if self.broker.server is not None:
            servers.append(self.broker.server)
        return StackFile(
            bootstrap_servers=self.broker.bootstrap_servers,
            airflow_url=self.airflow.url,
            username=self.airflow.username,
            password=self.airflow.password,
            streams_folder=str(self.streams),
            processes=[
                StackProcess(
                    name=s.name, pid=s.pid, started=process_identity(s.pid), log=str(s.log)
                )
                for s in servers
            ],
        )


def _runtime(folder: Path) -> dict[str, str]:
    """A runtime folder of the stack's own, so that its warm Spark ends with it.

    A socket's path has 107 bytes at most; in a folder that is too deep, the user's own is shared.
    """
    runtime = folder.absolute() / _RUNTIME
    return {"TIDELINE_RUNTIME": str(runtime)} if len(os.fsencode(runtime)) < 80 else {}


SAMPLES = {"orders": 20_000, "clicks": 1_000, "payments": 1_000}
"""Topics to look around with, and how many records each has."""


def up(root: Path) -> None:
    """Start a stack with sample topics in `root/.stack`, write `.stack.json`, say how to use it.

    Raises:
        BadInput: There is a `.stack.json` already, or the stack cannot be built or started.
        ServiceAway: A service is not ready in time.
    """
    facts_file = root / ".stack.json"
    if facts_file.exists():
        raise BadInput(
            f"{facts_file} exists: a stack is running or was not stopped cleanly; run `make down`"
            " first"
        )
    stack = Stack.build(root / ".stack")
    with working(f"starting a broker and Airflow, about a minute; their logs: {stack.folder}"):
        stack.start()
        log = ProducerLog(stack.broker.bootstrap_servers)
        for topic, records in SAMPLES.items():
            log.create_topic(topic, partitions=3)
            log.produce(topic, records)
    facts_file.touch(mode=0o600)
    facts_file.write_text(json.dumps(stack.facts().data(), indent=2) + "\n")
    print(f"Airflow  {stack.airflow.url}  (user {stack.airflow.username}, see .stack.json)")
    topics = ", ".join(f"{topic} ({records:,} records)" for topic, records in SAMPLES.items())
    print(f"Kafka    {stack.broker.bootstrap_servers}: {topics}")
    print(f"Streams  {stack.streams}: put a stream file there and unpause its Dag.")
    print("         `make down` removes this folder. For the command line:")
    print(f"         export AIRFLOW_CONN_KAFKA_DEFAULT='{stack.kafka_connection}'")
    print(f"         export AIRFLOW_CONN_TIDELINE_LEDGER='{stack.airflow.ledger_connection}'")


def down(root: Path) -> None:
    """Stop what `up` has started in `root`, and remove its files and `.stack.json`.

    A process is left alone when its id now belongs to another process.

    Raises:
        ServiceAway: A process is still there 10 s after SIGKILL.
    """
    facts_file = root / ".stack.json"
    if not facts_file.exists():
        print(f"no stack is running: {facts_file} does not exist")
        return
    for item in json.loads(facts_file.read_text())["processes"]:
        if process_identity(item["pid"]) == item["started"] != "":
            Server(item["name"], item["pid"], Path(item["log"])).stop()
            print(f"stopped {item['name']}")
        else:
            print(f"{item['name']} had already ended")
    end_drivers(root / ".stack" / _RUNTIME, archived=False)
    shutil.rmtree(root / ".stack", ignore_errors=True)
    facts_file.unlink()


if __name__ == "__main__":
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    logging.getLogger("tideline").setLevel(logging.INFO)
    try:
        {"up": up, "down": down}[sys.argv[1]](Path.cwd())
    except TidelineError as error:
        sys.exit(f"{error}")
