"""A real Airflow on one machine: API server, scheduler, Dag processor and triggerer.

Each service is a process that this module starts, because `airflow standalone` leaves its children
running when it is stopped. Everything listens on 127.0.0.1 only. The services' log servers would
listen on every interface, so they are off.
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
from tideline.ledger.sql_store import MANAGER

_REPOSITORY = Path(__file__).parents[1]
_SERVICES = {
    "api-server": ("--host", HOST),
    "scheduler": ("--skip-serve-logs",),
    "dag-processor": (),
    "triggerer": ("--skip-serve-logs",),
}


def _database(folder: Path, url: str | None, schedulers: int) -> URL:
    """The metadata database's address: `url`, or a SQLite file in the folder when None.

    Raises:
        BadInput: More than one scheduler on SQLite.
    """
    database = make_url(url or f"sqlite:///{folder}/airflow.db")
    if schedulers > 1 and database.get_backend_name() == "sqlite":
        raise BadInput(
            f"schedulers: got {schedulers}; SQLite allows 1; pass the address of a PostgreSQL"
            " database for more"
        )
    return database


def connection_to(url: URL) -> str:
    """A SQLite or PostgreSQL address as an Airflow connection in JSON, the password included."""
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
    """Airflow with its home in a folder; its database holds the ledger's tables, too.

    Args:
        folder: Becomes AIRFLOW_HOME.
        streams: Folder of stream files.
        environment: More variables for all services, for example connections.
        database_url: The metadata database; a SQLite file in the folder when None.
        schedulers: Number of schedulers; more than one needs PostgreSQL.
        users: More users beside the administrator, each with a role of the simple auth manager:
            viewer, user, op or admin.

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
        users: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.schedulers = schedulers
        self._database = _database(folder, database_url, schedulers)
        self.port = free_ports(1)[0]
        self._roles = {self.username: "admin", **(users or {})}
        self._passwords = {name: secrets.token_urlsafe(12) for name in self._roles}
        self.password = self._passwords[self.username]
        self._environment = self._build_environment(streams, environment)
        self.servers: dict[str, Server] = {}

    @property
    def dags(self) -> Path:
        """Folder for more Dags; the repository's `dags/` is parsed in any case."""
        return self.folder / "dags"

    @property
    def url(self) -> str:
        """Address of the web page and of the REST API."""
        return f"http://{HOST}:{self.port}"

    @property
    def ledger_connection(self) -> str:
        """Airflow connection (JSON) to the metadata database, as `ledger: airflow` needs it."""
        return connection_to(self._database)

    @property
    def variables(self) -> Mapping[str, str]:
        """The environment of its services."""
        return self._environment

    def login(self, username: str) -> dict[str, str]:
        """What a user logs in with, as the simple auth manager takes it."""
        return {"username": username, "password": self._passwords[username]}

    def client(self, username: str = username) -> AirflowClient:
        """A client of the REST API, with the login of one of the users."""
        logs = [server.log for name, server in self.servers.items() if "scheduler" in name]
        return AirflowClient(self.url, username, self._passwords[username], logs)

    def start(self, timeout_seconds: float = 600) -> EmbeddedAirflow:
        """Migrate the database, start the services, wait until all are healthy.

        Args:
            timeout_seconds: How long to wait for each service.

        Raises:
            ServiceAway: The migration failed or a service is not healthy in time; all are stopped.
                The message holds the end of the service's log.
        """
        self._prepare()
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

    def start_pages(self, timeout_seconds: float = 600) -> EmbeddedAirflow:
        """Start the API server alone, with all Dags as they are now; nothing runs them.

        Args:
            timeout_seconds: How long to wait for it.

        Raises:
            ServiceAway: As for `start`.
        """
        self._prepare()
        self._run("dags", "reserialize")
        try:
            self.start_service("api-server")
            server, client = self.servers["api-server"], self.client()
            server.wait_ready(client.is_answering, timeout_seconds)
        except ServiceAway:
            self.stop()
            raise
        return self

    def _prepare(self) -> None:
        """Folder, users and database."""
        self.dags.mkdir(parents=True, exist_ok=True)
        passwords = self.folder / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps(self._passwords))
        self._run("db", "migrate")

    def start_service(
        self, service: str, number: int = 0, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start one service, also to replace one that has ended; does not wait until it is healthy.

        Args:
            service: `api-server`, `scheduler`, `dag-processor` or `triggerer`.
            number: Which of several schedulers; counts from 0.
            environment: More variables for the service and its child processes.
        """
        port = ("--port", str(self.port)) if service == "api-server" else ()
        command = [*_airflow(), service, *_SERVICES[service], *port]
        name = f"{service}-{number + 1}" if number else service
        log = self.folder / f"{name}.log"
        variables = {**self._environment, **(environment or {})}
        self.servers[name] = Server.start(f"airflow {name}", command, log, variables)

    def stop(self) -> None:
        """Stop every service and wait until its process is gone.

        Raises:
            ServiceAway: A process is still there 10 s after SIGKILL.
        """
        for name in reversed(list(self.servers)):
            self.servers.pop(name).stop()

    def _run(self, *command: str) -> None:
        done = subprocess.run(
            [*_airflow(), *command],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            tail = "\n".join((done.stdout + done.stderr).splitlines()[-25:])
            raise ServiceAway(
                f"{self.folder}: airflow {' '.join(command)}: exit status {done.returncode},"
                f" expected 0:\n{tail}"
            )

    def _build_environment(self, streams: Path, environment: Mapping[str, str]) -> dict[str, str]:
        settings = {
            "CORE__DAGS_FOLDER": str(_REPOSITORY / "dags"),
            "DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps(
                [_bundle("dags-folder"), _bundle("more-dags", path=str(self.dags))]
            ),
            "CORE__PLUGINS_FOLDER": str(_REPOSITORY / "plugins"),
            "CORE__LOAD_EXAMPLES": "False",
            "CORE__DAGBAG_IMPORT_TIMEOUT": "300",  # on a busy machine an import takes a minute
            "DAG_PROCESSOR__DAG_FILE_PROCESSOR_TIMEOUT": "600",
            "CORE__EXECUTOR": "LocalExecutor",
            "CORE__PARALLELISM": "4",
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "CORE__FERNET_KEY": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
            "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
                f"{name}:{role}" for name, role in self._roles.items()
            ),
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
            # This checkout comes before an installed Tideline.
            "PYTHONPATH": str(_REPOSITORY / "plugins"),
            "TIDELINE_STREAMS": str(streams),
            **environment,
        }


def _bundle(name: str, **arguments: str) -> dict[str, object]:
    """Configuration of a Dag bundle; without `path` it is the folder of CORE__DAGS_FOLDER."""
    local = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return {"name": name, "classpath": local, "kwargs": arguments}


def _airflow() -> list[str]:
    return [str(Path(sys.executable).parent / "airflow")]
