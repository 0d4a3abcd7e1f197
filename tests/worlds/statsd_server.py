"""A StatsD server of the tests: it keeps the last value of each gauge, as an exporter does."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock, Thread

from tests.worlds.prometheus import series_name

_LONGEST = 65_535


class StatsdServer:
    """Gauges that somebody has sent, with tags as InfluxDB writes them."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self._gauges: dict[str, float] = {}
        self._lock = Lock()
        self._thread = Thread(target=self._receive, daemon=True)
        self._thread.start()

    @property
    def settings(self) -> Mapping[str, str]:
        """Airflow's settings that have it send everything here."""
        return {
            "AIRFLOW__METRICS__STATSD_ON": "True",
            "AIRFLOW__METRICS__STATSD_HOST": "127.0.0.1",
            "AIRFLOW__METRICS__STATSD_PORT": str(self._socket.getsockname()[1]),
            "AIRFLOW__METRICS__STATSD_INFLUXDB_ENABLED": "True",
        }

    def gauges(self, prefix: str, **tags: str) -> dict[str, float]:
        """The gauges with these tags among theirs, by name and labels as Prometheus has them."""
        wanted = [f'{key}="{value}"' for key, value in tags.items()]
        with self._lock:
            known = dict(self._gauges)
        return {
            name: value
            for name, value in known.items()
            if name.startswith(prefix) and all(label in name for label in wanted)
        }

    def close(self) -> None:
        """Stop listening."""
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join(10)
        self._socket.close()

    def _receive(self) -> None:
        while True:
            received = self._socket.recv(_LONGEST).decode()
            if not received:  # `close` says so
                return
            for line in received.splitlines():
                self.take(line)

    def take(self, line: str) -> None:
        """Keep what a line says: `name,tag=value:3|g`; a signed number is added to the value."""
        what, _, rest = line.rpartition(":")
        value, _, kind = rest.partition("|")
        if kind != "g":
            return
        name, *tags = what.split(",")
        key = series_name(name, dict(tag.split("=", 1) for tag in tags))
        with self._lock:
            before = self._gauges.get(key, 0.0) if value[0] in "+-" else 0.0
            self._gauges[key] = before + float(value)


@contextmanager
def statsd_server() -> Iterator[StatsdServer]:
    """A server on a free port of this machine."""
    server = StatsdServer()
    yield server
    server.close()
