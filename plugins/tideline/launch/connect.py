"""The ingest application as a client of a Spark Connect server, which is warm already.

The same application file in a process of its own, so that it can be killed like spark-submit, and
so that pyspark's choice between its two clients, made once per process, is not ours to undo.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from urllib.parse import urlparse

from tideline.errors import ServiceAway
from tideline.launch.submit import application, package_zip

_REACH_SECONDS = 10


class SparkConnect:
    """Runs the application against a server.

    Args:
        url: `sc://host:port/;...`, as Spark's clients take it; may hold a token.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._child: subprocess.Popen[bytes] | None = None

    def submit(self, job_path: str) -> None:
        """Run it to its end; its output goes to standard error.

        Raises:
            ServiceAway: The server cannot be reached, or the application ended badly.
        """
        self._refuse_unreachable()
        variables = {**os.environ, "SPARK_REMOTE": self._url, "PYTHONPATH": package_zip()}
        variables.pop("SPARK_CONNECT_MODE_ENABLED", None)
        command = [sys.executable, application(), job_path]
        self._child = subprocess.Popen(command, env=variables, stdout=sys.stderr.fileno())
        try:
            status = self._child.wait()
        finally:
            self.stop()
        if status != 0:
            raise ServiceAway(
                f"the Spark Connect client ended with status {status}; see its output"
            )

    def stop(self) -> None:
        """End the application if it runs; what the server still does is fenced (R5)."""
        if self._child is not None and self._child.poll() is None:
            self._child.send_signal(signal.SIGKILL)
            self._child.wait()

    def _refuse_unreachable(self) -> None:
        """Spark's client would try for minutes, and say so late."""
        address = urlparse(self._url)
        host, port = address.hostname, address.port
        try:
            socket.create_connection((host, port), _REACH_SECONDS).close()
        except OSError as error:
            raise ServiceAway(
                f"no Spark Connect server at {host}:{port}: {error}; nothing moved, try again when"
                " it is there"
            ) from error
