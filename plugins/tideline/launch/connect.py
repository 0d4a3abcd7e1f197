"""The applications as clients of a running Spark Connect server.

They run the same files in a child process: that can be killed like spark-submit, and pyspark
chooses between its classic and its Connect client once per process.
"""

from __future__ import annotations

import os
import socket
import sys
from urllib.parse import urlparse

from tideline.errors import ServiceAway
from tideline.launch.programs import (
    CONNECTION,
    TOKEN,
    application,
    application_for,
    spark_variables,
)
from tideline.launch.submit import Child, package_zip

_REACH_SECONDS = 10


class SparkConnect:
    """Runs applications against a server.

    Args:
        url: `sc://host:port/;...`, as Spark's clients take it, without a token.
        token: That the server asks for; secret. None leaves it to the environment.
        connection: Id of the Airflow connection, for messages.
    """

    def __init__(self, url: str, token: str | None = None, connection: str = "") -> None:
        self._url = url
        self._variables = {"SPARK_REMOTE": url, CONNECTION: connection}
        if token:
            self._variables[TOKEN] = token
        self._child = Child()

    def submit(self, job_path: str) -> None:
        """Run it to its end; its output goes to standard error.

        Raises:
            ServiceAway: The server cannot be reached, or the application ended badly.
        """
        self._refuse_unreachable()
        theirs = spark_variables(os.environ)
        # behind ours: a stream's own transform may be there
        path = [package_zip(), *filter(None, [theirs.get("PYTHONPATH")])]
        variables = {**theirs, **self._variables, "PYTHONPATH": os.pathsep.join(path)}
        variables.pop("SPARK_CONNECT_MODE_ENABLED", None)
        program = application(application_for(job_path))
        status = self._child.run([sys.executable, program, job_path], variables)
        if status != 0:
            raise ServiceAway(
                f"the Spark Connect client ended with status {status}; see its output"
            )

    def stop(self) -> None:
        """End the client if it runs; what the server still executes is fenced (R5)."""
        self._child.stop()

    def _refuse_unreachable(self) -> None:
        """Fail at once: Spark's client would retry for minutes before it says anything."""
        address = urlparse(self._url)
        host, port = address.hostname, address.port
        try:
            socket.create_connection((host, port), _REACH_SECONDS).close()
        except OSError as error:
            raise ServiceAway(
                f"no Spark Connect server at {host}:{port}: {error}; nothing moved. Start the"
                " server, then try again"
            ) from error
