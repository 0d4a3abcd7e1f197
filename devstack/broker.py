"""A real Kafka broker in KRaft mode: one process is both broker and controller.

No library on PyPI starts a broker without Docker, so this starts Kafka's own classes.
"""

from __future__ import annotations

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from devstack.process import HOST, Server, free_ports, is_listening
from tideline.errors import ServiceAway
from tideline.launch.jars import broker_jars
from tideline.launch.java import Java, find_java

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    # Otherwise a producer with old metadata creates a deleted topic again.
    "auto.create.topics.enable": "false",
    "delete.topic.enable": "true",
    "log.retention.check.interval.ms": "1000",
    "log.initial.task.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.segment.delete.delay.ms": "1000",
}


class Broker:
    """One broker with its data in a folder; it can be stopped and started again with its data.

    Args:
        folder: Holds data, configuration and log.
        port: Client port; a free one when None.
        settings: Broker properties; they override the defaults.
        cluster_id: Id of the Kafka cluster; a new one when None.
        heap_mb: Maximum heap of its JVM in MiB.
        java_options: More options of its JVM.
    """

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        settings: Mapping[str, str] | None = None,
        *,
        cluster_id: str | None = None,
        heap_mb: int = 512,
        java_options: Sequence[str] = (),
    ) -> None:
        self.folder = folder
        ports = free_ports(2)
        self.port = port or ports[0]
        self._controller_port = ports[1]
        self._settings = {**_SETTINGS, **(settings or {})}
        self._cluster_id = cluster_id
        self._heap_mb = heap_mb
        self._java_options = java_options
        self.server: Server | None = None

    @property
    def bootstrap_servers(self) -> str:
        """Address for clients."""
        return f"{HOST}:{self.port}"

    @property
    def data(self) -> Path:
        """Folder that holds one folder per partition (Kafka's `log.dirs`)."""
        return self.folder / "data"

    def start(self, timeout_seconds: float = 300) -> Broker:
        """Format the folder if it is new, start, and wait until the port accepts connections.

        Args:
            timeout_seconds: How long to wait for the port.

        Raises:
            BadInput: Java or the jars are missing.
            ServiceAway: The broker is not ready in time or ended; the message holds the end of its
                log.
        """
        java = find_java()
        config = self._write_config()
        if not (self.data / "meta.properties").exists():
            self._format(java, config)
        command = [*self._java(java), "-Xms128m", f"-Xmx{self._heap_mb}m", "kafka.Kafka", config]
        self.server = Server.ready(
            "kafka",
            command,
            self.folder / "kafka.log",
            lambda: is_listening(self.port),
            timeout_seconds,
        )
        return self

    def stop(self) -> None:
        """Shut down cleanly; does nothing when the broker is not running."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def _java(self, java: Java) -> list[str | Path]:
        classpath = ":".join(str(jar) for jar in broker_jars())
        options = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classpath]
        return [java.binary, *options, *self._java_options]

    def _write_config(self) -> Path:
        own = {
            "log.dirs": str(self.data),
            "listeners": f"PLAINTEXT://{self.bootstrap_servers},"
            f"CONTROLLER://{HOST}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}",
            "controller.quorum.voters": f"1@{HOST}:{self._controller_port}",
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        config = self.folder / "server.properties"
        lines = (f"{name}={value}\n" for name, value in {**own, **self._settings}.items())
        config.write_text("".join(lines))
        return config

    def _format(self, java: Java, config: Path) -> None:
        cluster_id = self._cluster_id or new_cluster_id()
        tool = [*self._java(java), "kafka.tools.StorageTool", "format"]
        done = subprocess.run(
            [*tool, "-t", cluster_id, "-c", config], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise ServiceAway(
                f"{self.data}: kafka.tools.StorageTool format: exit status {done.returncode},"
                f" expected 0:\n{done.stdout}{done.stderr}"
            )


def new_cluster_id() -> str:
    """A random id that begins with a letter; the storage tool reads a leading dash as an option."""
    raw = uuid.uuid4().bytes
    letter_first = bytes([raw[0] & 0x7F]) + raw[1:]
    return urlsafe_b64encode(letter_first).decode().rstrip("=")
