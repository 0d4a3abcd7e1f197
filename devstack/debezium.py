"""A real Debezium: Kafka Connect, standalone, that reads a PostgreSQL's changes into topics."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from sqlalchemy.engine import URL

from devstack.process import HOST, Server, free_ports
from devstack.registry import Registry
from devstack.registry_program import converter_jars
from tideline.errors import ServiceAway
from tideline.launch.jars import fetch
from tideline.launch.java import find_java

_JAVA = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_START_SECONDS = 300
_LARGEST = 16 * 1024 * 1024
"""Bytes of a record. With REPLICA IDENTITY FULL an update has its row twice, and at a record above
the default, 1 MiB, the connector's task fails."""
_NAME = "source"


def avro_converters(registry: Registry) -> dict[str, str]:
    """Avro behind Confluent's framing: subjects `TOPIC-key` and `TOPIC-value`."""
    settings = {
        "": "io.apicurio.registry.utils.converter.AvroConverter",
        ".apicurio.registry.url": f"http://{HOST}:{registry.port}/apis/registry/v2",
        ".apicurio.registry.auto-register": "true",
        ".apicurio.registry.as-confluent": "true",
        ".apicurio.registry.use-id": "contentId",
        ".apicurio.registry.headers.enabled": "false",
        ".apicurio.registry.artifact-resolver-strategy": (
            "io.apicurio.registry.serde.strategy.TopicIdStrategy"
        ),
    }
    parts = ("key", "value")
    return {f"{part}.converter{name}": to for part in parts for name, to in settings.items()}


class Debezium:
    """One worker with one connector; stopped and started again, it goes on where it was.

    Args:
        folder: Holds its log, its settings and the offsets that it has sent.
        bootstrap_servers: Of the broker.
        database: Of PostgreSQL; its `wal_level` is `logical`.
        prefix: How the topics' names begin: `PREFIX.SCHEMA.TABLE`.
        partitions: Of the topics that it creates.
        settings: More settings of the connector.
        converters: Settings of the worker's converters, as `avro_converters` gives them; without
            any it is Connect's JSON with schemas.
    """

    def __init__(
        self,
        folder: Path,
        bootstrap_servers: str,
        database: URL,
        prefix: str,
        *,
        partitions: int = 1,
        settings: Mapping[str, str] | None = None,
        converters: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.port = free_ports(1)[0]
        self.server: Server | None = None
        json_converter = "org.apache.kafka.connect.json.JsonConverter"
        self._worker = {
            "bootstrap.servers": bootstrap_servers,
            "key.converter": json_converter,
            "value.converter": json_converter,
            "offset.storage.file.filename": str(folder / "offsets"),
            "offset.flush.interval.ms": "500",
            "listeners": f"http://{HOST}:{self.port}",
            "plugin.discovery": "service_load",
            **(converters or {}),
        }
        self._connector = {
            "name": _NAME,
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "tasks.max": "1",
            "plugin.name": "pgoutput",
            "database.hostname": str(database.host),
            "database.port": str(database.port),
            "database.user": str(database.username),
            "database.password": str(database.password),
            "database.dbname": str(database.database),
            "topic.prefix": prefix,
            "topic.creation.default.replication.factor": "1",
            "topic.creation.default.partitions": str(partitions),
            "topic.creation.default.max.message.bytes": str(_LARGEST),
            "producer.override.max.request.size": str(_LARGEST),
            **(settings or {}),
        }

    def start(self, timeout_seconds: float = _START_SECONDS) -> Debezium:
        """Start it, and wait until the connector's task runs.

        Args:
            timeout_seconds: How long to wait.

        Raises:
            BadInput: Java is missing, or a jar is not what it should be.
            ServiceAway: It does not run in time or ended; the message holds the end of its log.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        files = []
        for name, settings in (("worker", self._worker), ("connector", self._connector)):
            file = self.folder / f"{name}.properties"
            file.touch(mode=0o600)  # it has a password
            file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            files.append(file)
        others = converter_jars() if any("apicurio" in v for v in self._worker.values()) else ()
        jars = ":".join(map(str, [*fetch("debezium"), *others]))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = [str(find_java().binary), *_JAVA, "-cp", jars, main, *map(str, files)]
        log = self.folder / "debezium.log"
        self.server = Server.ready("debezium", command, log, self._runs, timeout_seconds)
        return self

    def _runs(self) -> bool:
        return [task.get("state") for task in self._tasks()] == ["RUNNING"]

    def refuse_failed(self) -> None:
        """Make sure that the connector's task has not failed: it sends nothing more then.

        Raises:
            ServiceAway: It has; the message holds the end of its stack trace.
        """
        for task in self._tasks():
            if task.get("state") == "FAILED":
                raise ServiceAway(f"debezium: its task has failed: {task.get('trace', '')[-2000:]}")

    def _tasks(self) -> list[dict[str, str]]:
        """What Connect says of the connector's tasks; nothing while it does not answer."""
        try:
            connection = HTTPConnection(HOST, self.port, timeout=5)
            connection.request("GET", f"/connectors/{_NAME}/status")
            found: list[dict[str, str]] = json.load(connection.getresponse())["tasks"]
        except (OSError, HTTPException, KeyError, ValueError):
            return []
        return found

    def stop(self) -> None:
        """Stop it; does nothing when it is not running."""
        if self.server is not None:
            self.server.stop()
            self.server = None
