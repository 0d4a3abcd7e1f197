"""A stream's ledger in either of its homes, and what can befall the store it is in."""

from __future__ import annotations

import shutil
from pathlib import Path

from deltalake import DeltaTable

from devstack.postgres import Postgres
from tests.worlds.ledgers import create_tables


class InFiles:
    """A Delta table: its folder can be moved and copied.

    Args:
        folder: Where it is.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._away, self._copy = folder.with_suffix(".away"), folder.with_suffix(".copy")

    @property
    def is_there(self) -> bool:
        """Whether a ledger is where it should be."""
        return DeltaTable.is_deltatable(str(self.folder))

    def go_away(self) -> None:
        """Its disk is no longer mounted."""
        self.folder.rename(self._away)

    def come_back(self) -> None:
        """As it was: what was written beneath the mount point meanwhile is hidden by it."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._away.rename(self.folder)

    lose, find = go_away, come_back

    def save(self) -> None:
        """Take a copy."""
        shutil.copytree(self.folder, self._copy)

    def restore(self) -> None:
        """Put the copy in its place."""
        shutil.rmtree(self.folder)
        self._copy.rename(self.folder)


class InPostgres:
    """Rows in a database of its own: the server can be away, the database swapped.

    Args:
        server: Where it is.
        name: The database's name.
    """

    def __init__(self, server: Postgres, name: str) -> None:
        self._server, self._name = server, name
        self.url = create_tables(server.create_database(name))

    @property
    def is_there(self) -> bool:
        """Whether the ledger's database holds anything."""
        if self._server.server is None:
            return False
        ((rows,),) = self._server.execute("SELECT count(*) FROM tideline_ledger", self._name)
        return bool(rows)

    def go_away(self) -> None:
        """The server is stopped."""
        self._server.stop()

    def come_back(self) -> None:
        """The server is started on its data."""
        self._server.resume()

    def lose(self) -> None:
        """A new database with empty tables is in its place."""
        self._rename(self._name, f"{self._name}-away")
        create_tables(self._server.create_database(self._name))

    def find(self) -> None:
        """The lost one is back."""
        self._server.execute(f'DROP DATABASE "{self._name}"')
        self._rename(f"{self._name}-away", self._name)

    def save(self) -> None:
        """Take a copy."""
        self._server.execute(f'CREATE DATABASE "{self._name}-copy" TEMPLATE "{self._name}"')

    def restore(self) -> None:
        """Put the copy in its place."""
        self._server.execute(f'DROP DATABASE "{self._name}"')
        self._rename(f"{self._name}-copy", self._name)

    def _rename(self, old: str, new: str) -> None:
        self._server.execute(f'ALTER DATABASE "{old}" RENAME TO "{new}"')
