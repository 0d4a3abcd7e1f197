"""A Spark Connect server on a free port: one Spark that many runs share."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from devstack.process import HOST, Server, free_ports, is_listening
from tideline.launch.programs import TOKEN, spark_variables
from tideline.launch.runtime import SPILLS
from tideline.launch.submit import build_submission, configuration, submit_command
from tideline.spark.session import APPLICATION
from tideline.store.store_settings import store_settings

_START_SECONDS = 120
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


class ConnectServer:
    """A server process with Tideline's jars, listening on 127.0.0.1; it asks for its token.

    With `TIDELINE_TEST_BUCKET` it has the jars and the variables for an object store as well.

    Args:
        folder: Holds its log.
        master: Spark master URL.
        settings: More Spark properties.
    """

    def __init__(
        self, folder: Path, master: str = "local[*]", settings: Mapping[str, str] | None = None
    ) -> None:
        self._folder = folder
        self._settings = dict(settings or {})
        self._master = master
        self.port = free_ports(1)[0]
        self.token = secrets.token_urlsafe()
        self.server: Server | None = None

    @property
    def connection(self) -> dict[str, str | int]:
        """The server as an Airflow connection."""
        where: dict[str, str | int] = {"host": "localhost", "port": self.port}
        return {"conn_type": "spark_connect", **where, "password": self.token}

    @property
    def url(self) -> str:
        """Address for clients; with another name than `localhost` they would ask for TLS."""
        return f"sc://localhost:{self.port}"

    def start(self) -> ConnectServer:
        """Start the server and wait until its port accepts connections, 120 s at most.

        Raises:
            BadInput: Java or the jars are missing.
            ServiceAway: The server is not ready in time or ended; the message holds the end of its
                log.
        """
        settings = {
            **configuration(self._master, is_small=False),
            **APPLICATION,
            "spark.connect.grpc.binding.address": HOST,
            "spark.connect.grpc.binding.port": str(self.port),
            **self._settings,
        }
        bucket = os.environ.get("TIDELINE_TEST_BUCKET")
        in_store = store_settings(None, bucket) if bucket else None
        server = build_submission(
            self._master, settings, "spark-internal", java_class=_CLASS, store=in_store
        )
        command = submit_command(server)
        spills = self._folder / "spills"
        spills.mkdir(mode=0o700, parents=True, exist_ok=True)
        ours = {**server.environment, TOKEN: self.token, SPILLS: str(spills)}
        variables = {**spark_variables(os.environ), **ours}
        log = self._folder / "spark-connect.log"
        self.server = Server.ready(
            "spark-connect",
            command,
            log,
            lambda: is_listening(self.port),
            _START_SECONDS,
            variables,
        )
        return self

    def stop(self) -> None:
        """Stop the server; does nothing when it is not running."""
        if self.server is not None:
            self.server.stop()
            self.server = None
