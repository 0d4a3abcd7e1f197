"""A real PostgreSQL on a free port: the server that the PyPI package `pgserver` carries."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL
from sqlalchemy.pool import NullPool

from devstack.process import HOST, Server, free_ports, is_listening

_USER = "tideline"


class Postgres:
    """One server with its data in a folder of its own; as root it runs as `nobody`.

    Args:
        settings: More of the server's settings.
    """

    def __init__(self, **settings: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tideline-postgres-"))
        self.port = free_ports(1)[0]
        self.password = secrets.token_urlsafe(12)
        self.server: Server | None = None
        self._settings = {"max_connections": "200", "unix_socket_directories": "", **settings}
        package = importlib.util.find_spec("pgserver")  # its own import starts looking around
        assert package is not None
        assert package.origin is not None
        found = Path(package.origin).parent
        self._as_nobody: list[str] = []
        if os.geteuid() == 0:  # postgres refuses to be root, and nobody may not see our folders
            ids = ("--reuid=nobody", "--regid=nogroup", "--clear-groups")
            self._as_nobody = ["setpriv", *ids]
            shutil.chown(self.folder, "nobody", "nogroup")
            for part in ("pgserver", "pgserver.libs"):
                shutil.copytree(found.parent / part, self.folder / part)
            found = self.folder / "pgserver"
        self._bin = found / "pginstall" / "bin"

    def start(self) -> Postgres:
        """Create the data folder and start the server."""
        password = self.folder / "password"
        password.write_text(self.password)
        password.chmod(0o644)  # inside a folder that nobody else may enter
        initdb = ["initdb", "--username", _USER, "--auth", "scram-sha-256", "--no-sync"]
        initdb += ["--pgdata", str(self.folder / "data"), "--pwfile", str(password)]
        done = subprocess.run(
            self._command(*initdb), cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return self.resume()

    def resume(self) -> Postgres:
        """Start the server on its data, after `stop` too."""
        options = [part for k, v in self._settings.items() for part in ("-c", f"{k}={v}")]
        command = self._command(
            "postgres", "-D", str(self.folder / "data"), "-h", HOST, "-p", str(self.port), *options
        )
        self.server = Server.start("postgres", command, self.folder / "postgres.log")
        self.server.wait_ready(self._answers, 60)
        return self

    def _command(self, program: str, *arguments: str) -> list[str]:
        return [*self._as_nobody, str(self._bin / program), *arguments]

    def _answers(self) -> bool:
        try:
            return is_listening(self.port) and bool(self.execute("SELECT 1"))
        except Exception:
            return False

    def stop(self) -> None:
        """Stop the server; its data stays."""
        if self.server is not None:
            self.server.signal(signal.SIGINT)  # SIGTERM alone would wait for clients to go
            self.server.stop()
            self.server = None

    def remove(self) -> None:
        """Stop the server and remove everything."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str = "postgres") -> URL:
        """The address of a database."""
        return URL.create("postgresql+psycopg2", _USER, self.password, HOST, self.port, database)

    def create_database(self, name: str) -> URL:
        """A database of its own for one test; its address."""
        self.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[object, ...]]:
        """Run one statement; its rows, if it has any."""
        engine = create_engine(self.url(database), poolclass=NullPool, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            done = connection.execute(text(statement))
            return [tuple(row) for row in done] if done.returns_rows else []
