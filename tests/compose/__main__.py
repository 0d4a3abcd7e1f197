"""Start docker-compose.yaml's services, land a stream through them, audit it.

Usage: python -m tests.compose FOLDER (as root). FOLDER is for images and logs; what containers
write is in memory. The last line is a JSON object with what was found.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.request
from base64 import urlsafe_b64encode
from pathlib import Path

from devstack.airflow_client import AirflowClient
from devstack.sample import ProducerLog, compare
from tests.compose.compose_file import Service, read_services, variable_names
from tests.compose.images import Image, build_image, install_wheel
from tests.compose.machine import ENTER, Machine

_INSIDE = "inside"
_LANDING_SECONDS = 420
_EVENTS = 2000
_PATIENCE = 3
"""Of what Docker allows until a service is healthy: whoever runs tests may do other things too."""


class Whole:
    """All services.

    Args:
        folder: For images and logs.
    """

    def __init__(self, folder: Path) -> None:
        self.variables = {name: secrets.token_hex(24) for name in variable_names()}
        self.variables["AIRFLOW_FERNET_KEY"] = urlsafe_b64encode(secrets.token_bytes(32)).decode()
        self.services = read_services(self.variables)
        self.machine = Machine(folder, self.services)
        self._images = folder / "images"
        self._began = time.monotonic()
        self._ready: set[str] = set()

    def build(self) -> dict[str, Image]:
        """Build every image that is not built yet."""
        return {name: build_image(s, self._images) for name, s in self.services.items()}

    def start(self) -> None:
        """Start every service as soon as what it needs is ready; wait until all are.

        Raises:
            AssertionError: A service failed, or its health check does not succeed in time.
        """
        images = self.build()
        self.machine.prepare(self._images / "venv")
        install_wheel(self._images)
        waiting = dict(self.services)
        while waiting:
            able = [name for name, s in waiting.items() if s.needs.keys() <= self._ready]
            assert able, f"nobody makes {waiting.keys()} ready"
            started = [waiting.pop(name) for name in able]
            for service in (s for s in started if s.health is not None):
                self.machine.start(service, images[service.name])
            for service in started:
                self._wait(service, images[service.name])

    def land(self) -> dict[str, object]:
        """Produce, let Airflow run the stream's Dag twice, audit; what was found."""
        log = ProducerLog("kafka:9092")
        client = AirflowClient("http://api-server:8080", "admin", self.variables["ADMIN_PASSWORD"])
        client.wait_for_dag("orders", 180)
        client.pause("orders", False)
        states = []
        for number in (1, 2):
            log.produce("orders", _EVENTS, seed=number)
            client.trigger("orders", f"compose-{number}")
            states.append(client.wait_for_run("orders", f"compose-{number}", _LANDING_SECONDS))
            self._say(f"compose-{number}: {states[-1]}")
        audit = ["tideline", "audit", "/opt/tideline/streams/orders.yaml", "--json"]
        audited = self.machine.execute("scheduler", audit, 180)
        assert audited.returncode == 0, audited.stdout + audited.stderr
        found = json.loads(audited.stdout)
        os.environ.update(
            AWS_ENDPOINT_URL="http://store:7070",
            AWS_ACCESS_KEY_ID=self.variables["S3_ACCESS_KEY"],
            AWS_SECRET_ACCESS_KEY=self.variables["S3_SECRET_KEY"],
            AWS_REGION="us-east-1",
            AWS_ALLOW_HTTP="true",
        )
        with urllib.request.urlopen("http://spark-master:8082/json/", timeout=10) as page:
            spark = json.load(page)
        return {
            "states": states,
            "clean": found["clean"],
            "rows": found["rows"],
            "produced": len(log.written),
            "exact": compare(log, "s3://lake/orders").exact,
            "workers": spark["aliveworkers"],
            "applications": len(spark["activeapps"]) + len(spark["completedapps"]),
            "seconds": round(time.monotonic() - self._began),
        }

    def _wait(self, service: Service, image: Image) -> None:
        """Wait until a service is what those need who depend on it.

        Raises:
            AssertionError: It failed.
            ServiceAway: It ended, or its health check does not succeed in time.
        """
        if service.health is None:
            self.machine.run(service, image, 180)
        else:
            server = self.machine.servers[service.name]
            server.wait_ready(lambda: self._is_healthy(service), _PATIENCE * service.health.seconds)
        self._ready.add(service.name)
        self._say(f"{service.name} is ready")

    def _is_healthy(self, service: Service) -> bool:
        assert service.health is not None
        try:
            done = self.machine.execute(service.name, service.health.test, service.health.timeout)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self._began:4.0f} s] {text}", file=sys.stderr, flush=True)


def main(folder: Path) -> int:
    """Build what needs a network, enter namespaces, start and land there.

    Args:
        folder: Created.
    """
    whole = Whole(folder)
    if _INSIDE not in sys.argv:
        whole.build()
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")}
        command = [*ENTER, sys.executable, "-m", "tests.compose", folder, _INSIDE]
        return subprocess.run(command, env=env, check=False).returncode
    try:
        whole.start()
        found = whole.land()
    finally:
        whole.machine.stop()
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
