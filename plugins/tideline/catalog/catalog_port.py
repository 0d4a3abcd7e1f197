"""What a catalog can be asked; nothing is ever dropped or moved there."""

from __future__ import annotations

from typing import Protocol

from tideline.model.catalog import CatalogEntry, TableName
from tideline.secrecy import redacted_line

SECONDS = 3.0
"""How long one answer may take."""
PROVIDER = "spark.sql.sources.provider"
STREAM = "tideline.stream"
"""Property of a table that names its stream, for people."""


def client_message(error: Exception, catalog: object = None) -> str:
    """What an exception of a client's says, in a line.

    Args:
        catalog: Whose secrets it may repeat: a service may quote the headers that it was sent.
    """
    return f"{type(error).__name__}: {redacted_line(str(error), getattr(catalog, 'secrets', ()))}"


class SchemaMissing(Exception):
    """The schema (database, namespace) of a name is not there; Tideline creates none."""


class CatalogPort(Protocol):
    """A catalog.

    Whatever goes wrong is an exception of the client's own: it never ends a run.
    """

    def find(self, name: TableName) -> CatalogEntry | None:
        """What the catalog says of a name; None if nothing has it.

        Raises:
            SchemaMissing: There is no such schema.
        """

    def create(self, name: TableName, uri: str, stream: str) -> None:
        """Make a name for an external Delta table; if somebody has made it meanwhile, leave it.

        Args:
            uri: Where the table is.
            stream: Whose it is.
        """
