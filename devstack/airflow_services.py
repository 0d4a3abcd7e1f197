"""A real Airflow on one machine: API server, scheduler, Dag processor and triggerer.

`airflow standalone` leaves its children running when it is told to stop, so each service is a
process of its own here. Everything binds to 127.0.0.1; the log servers, which would bind every
interface, stay off.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy.engine import URL, make_url

from devstack.airflow_client import AirflowClient
from devstack.process import HOST, Server, free_ports
from tideline.errors import BadInput, ServiceAway
from tideline.ledger.sql_tables import MANAGER

_REPOSITORY = Path(__file__).parents[1]
_SERVICES = {
    "api-server": ("--host", HOST),
    "scheduler": ("--skip-serve-logs",),
    "dag-processor": (),
    "triggerer": ("--skip-serve-logs",),
}


def _database(folder: Path, url: str | None, schedulers: int) -> URL:
    """The metadata database's address, the default one if none is given.

    Raises:
        BadInput: It cannot serve that many schedulers.
    """
    found = make_url(url or f"sqlite:///{folder}/airflow.db")
    if schedulers > 1 and found.get_backend_name() == "sqlite":
        raise BadInput(f"{schedulers} schedulers: on SQLite there can be one; give a PostgreSQL")
    return found


def connection_to(url: URL) -> str:
    """A database's address as an Airflow connection in JSON."""
    if url.get_backend_name() == "sqlite":
        return json.dumps({"conn_type": "sqlite", "host": url.database})
    return json.dumps(
        {
            "conn_type": "postgres",
            "host": url.host,
            "port": url.port,
            "login": url.username,
            "password": url.password,
            "schema": url.database,
        }
    )


class EmbeddedAirflow:
    """Airflow with its home in a folder, and the ledger's tables beside its own.

    Args:
        folder: Becomes AIRFLOW_HOME.
        streams: Folder of stream files.
        environment: More variables, connections above all.
        database_url: The metadata database; SQLite in the folder if none is given.
        schedulers: How many of them; more than one needs a PostgreSQL.

    Raises:
        BadInput: More than one scheduler on SQLite.
    """

    username = "admin"

    def __init__(
        self,
        folder: Path,
        streams: Path,
        environment: Mapping[str, str],
        database_url: str | None = None,
        schedulers: int = 1,
    ) -> None:
        self.folder = folder
        self.schedulers = schedulers
        self._database = _database(folder, database_url, schedulers)
        self.port = free_ports(1)[0]
        self.password = secrets.token_urlsafe(12)
        self._environment = self._build_environment(streams, environment)
        self.servers: dict[str, Server] = {}

    @property
    def dags(self) -> Path:
        """Folder for Dags beside Tideline's own."""
        return self.folder / "dags"

    @property
    def url(self) -> str:
        """Where the page and the API are."""
        return f"http://{HOST}:{self.port}"

    @property
    def ledger_connection(self) -> str:
        """A connection to its metadata database in Airflow's JSON form: for `ledger: airflow`."""
        return connection_to(self._database)

    def client(self) -> AirflowClient:
        """A logged-in client of the REST API."""
        logs = [server.log for name, server in self.servers.items() if "scheduler" in name]
        return AirflowClient(self.url, self.username, self.password, logs)

    def start(self, timeout_seconds: float = 180) -> EmbeddedAirflow:
        """Migrate the metadata, start the services, wait until all are healthy.

        Raises:
            ServiceAway: A service does not come up; carries the end of its log.
        """
        self.dags.mkdir(parents=True, exist_ok=True)
        passwords = self.folder / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps({self.username: self.password}))
        self._migrate()
        try:
            for service in _SERVICES:
                for number in range(self.schedulers if service == "scheduler" else 1):
                    self.start_service(service, number)
            client = self.client()
            for server in self.servers.values():
                server.wait_ready(client.is_healthy, timeout_seconds)
        except ServiceAway:
            self.stop()
            raise
        return self

    def start_service(
        self, service: str, number: int = 0, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start one service, also in the place of one that has ended; waits for nothing.

        Args:
            service: `api-server`, `scheduler`, `dag-processor` or `triggerer`.
            number: Which one of several, from 0.
            environment: More variables for it and for what it starts.
        """
        port = ("--port", str(self.port)) if service == "api-server" else ()
        command = [*_airflow(), service, *_SERVICES[service], *port]
        name = f"{service}-{number + 1}" if number else service
        log = self.folder / f"{name}.log"
        variables = {**self._environment, **(environment or {})}
        self.servers[name] = Server.start(f"airflow {name}", command, log, variables)

    def stop(self) -> None:
        """Stop every service and wait until it is gone."""
        for name in reversed(list(self.servers)):
            self.servers.pop(name).stop()

    def _migrate(self) -> None:
        done = subprocess.run(
            [*_airflow(), "db", "migrate"],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
            raise ServiceAway(f"airflow db migrate ended with {done.returncode}:\n{tail}")

    def _build_environment(self, streams: Path, environment: Mapping[str, str]) -> dict[str, str]:
        settings = {
            "CORE__DAGS_FOLDER": str(_REPOSITORY / "dags"),
            "DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
                [_bundle("dags-folder"), _bundle("more-dags", path=str(self.dags))]
            ),
            "CORE__PLUGINS_FOLDER": str(_REPOSITORY / "plugins"),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "4",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__FERNET_KEY": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "CORE__SIMPLE_AUTH_MANAGER_USERS": f"{self.username}:admin",
            "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.folder / "passwords.json"),
            "DATABASE__SQL_ALCHEMY_CONN": self._database.render_as_string(hide_password=False),
            "DATABASE__EXTERNAL_DB_MANAGERS": MANAGER,
            "API__BASE_URL": self.url,
            "API__WORKERS": "1",
            "API__SECRET_KEY": secrets.token_hex(32),
            "API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",
            "DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
            "USAGE_DATA_COLLECTION__ENABLED": "False",
        }
        python = Path(sys.executable).parent
        return {
            **{k: v for k, v in os.environ.items() if not k.startswith("AIRFLOW")},
            **{f"AIRFLOW__{name}": value for name, value in settings.items()},
            "AIRFLOW_HOME": str(self.folder),
            "AIRFLOW_CONN_TIDELINE_LEDGER": self.ledger_connection,
            "NO_PROXY": f"{HOST},localhost",
            "PATH": f"{python}{os.pathsep}{os.environ.get('PATH', '')}",
            # This checkout, whatever else is installed.
            "PYTHONPATH": str(_REPOSITORY / "plugins"),
            "TIDELINE_STREAMS": str(streams),
            **environment,
        }


def _bundle(name: str, **arguments: str) -> dict[str, object]:
    """One folder of Dags; without a path the one that Airflow's own setting names."""
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return {"name": name, "classpath": local, "kwargs": arguments}


def _airflow() -> list[str]:
    return [str(Path(sys.executable).parent / "airflow")]
