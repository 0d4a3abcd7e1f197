"""A real schema registry: Apicurio, which has Confluent's API as well."""

from __future__ import annotations

import json
from collections.abc import Iterable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

from devstack.process import HOST, Server, free_ports
from devstack.registry_program import registry_jar
from tideline.errors import ServiceAway
from tideline.launch.java import find_java

PATH = "/apis/ccompat/v7"
"""Where its Confluent API begins."""
_START_SECONDS = 60
_JAVA = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_REQUEST_SECONDS = 30

Reference = tuple[str, str, int]
"""A name as the schema uses it, and the subject and version that it stands for."""


class Registry:
    """One registry; it can be stopped and started again.

    Args:
        folder: Holds its log, and its data if they are kept.
        keeps: Whether schemas are in files and survive a restart; otherwise they are in memory.
        port: Its port; a free one when None.
    """

    def __init__(self, folder: Path, *, keeps: bool = False, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or free_ports(1)[0]
        self._keeps = keeps
        self.server: Server | None = None

    @property
    def connection(self) -> dict[str, Any]:
        """The registry as an Airflow connection."""
        extra = {"path": PATH}
        return {"conn_type": "http", "host": HOST, "port": self.port, "extra": extra}

    def start(self, timeout_seconds: float = _START_SECONDS) -> Registry:
        """Start it, and wait until it says that it is ready.

        Args:
            timeout_seconds: How long to wait.

        Raises:
            BadInput: Java or the program is missing.
            ServiceAway: It is not ready in time or ended; the message holds the end of its log.
        """
        scratch = self.folder / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        options = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": str(self.port),
            "java.io.tmpdir": str(scratch),
        }
        if self._keeps:
            options["apicurio.datasource.url"] = f"jdbc:h2:file:{self.folder.absolute()}/schemas"
        given = [f"-D{name}={value}" for name, value in options.items()]
        command: list[str | Path] = [find_java().binary, *_JAVA, *given, "-jar", registry_jar()]
        self.server = Server.ready(
            "registry", command, self.folder / "registry.log", self._is_ready, timeout_seconds
        )
        return self

    def stop(self) -> None:
        """Shut down cleanly; does nothing when it is not running."""
        if self.server is not None:
            self.server.stop()
            self.server = None

    def register(
        self,
        subject: str,
        schema: str,
        schema_type: str = "AVRO",
        references: Iterable[Reference] = (),
    ) -> int:
        """Register a schema as a subject's newest version; the schema's id.

        Args:
            subject: Created if it does not exist.
            schema: The schema's text.
            schema_type: `AVRO`, `JSON` or `PROTOBUF`.
            references: Other schemas that the text names.

        Raises:
            ServiceAway: The registry refuses, or does not answer.
        """
        body = {
            "schema": schema,
            "schemaType": schema_type,
            "references": [
                {"name": n, "subject": other, "version": v} for n, other, v in references
            ],
        }
        return int(self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", body)["id"])

    def versions(self, subject: str) -> list[int]:
        """The numbers of a subject's versions.

        Raises:
            ServiceAway: There is no such subject, or the registry does not answer.
        """
        return list(self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions"))

    def delete(self, subject: str, *, for_good: bool = False) -> None:
        """Delete a subject with all its versions.

        Args:
            subject: The subject.
            for_good: Ids that no other subject has are forgotten as well.

        Raises:
            ServiceAway: Others refer to it, or the registry does not answer.
        """
        path = f"/subjects/{quote(subject, safe='')}"
        self._ask("DELETE", path)
        if for_good:
            self._ask("DELETE", f"{path}?permanent=true")

    def set_compatibility(self, level: str) -> None:
        """Which new versions are accepted: `NONE` (the default here), `BACKWARD` and others.

        Raises:
            ServiceAway: The registry refuses, or does not answer.
        """
        self._ask("PUT", "/config", {"compatibility": level})

    def _is_ready(self) -> bool:
        try:
            return self._exchange("GET", "/health/ready", None, 2)[0] == 200
        except OSError:
            return False

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        try:
            status, answer = self._exchange(method, f"{PATH}{path}", body, _REQUEST_SECONDS)
        except OSError as error:
            raise ServiceAway(f"registry on port {self.port}: {method} {path}: {error}") from error
        if status != 200:
            raise ServiceAway(f"registry on port {self.port}: {method} {path}: {status}: {answer}")
        return json.loads(answer)

    def _exchange(
        self, method: str, path: str, body: object, timeout_seconds: float
    ) -> tuple[int, str]:
        link = HTTPConnection(HOST, self.port, timeout=timeout_seconds)
        try:
            data = None if body is None else json.dumps(body)
            link.request(method, path, data, {"Content-Type": "application/json"})
            answer = link.getresponse()
            return answer.status, answer.read().decode()
        finally:
            link.close()
