"""Names of tables in a catalog: what is wanted, what a catalog says, what the ledger remembers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from tideline.model.maintenance import TableRole

CatalogFinding = Literal[
    "catalog_elsewhere", "catalog_not_ours", "catalog_missing_schema", "catalog_away"
]
EXTERNAL = "external"


@dataclass(frozen=True, slots=True)
class TableName:
    """A name in a catalog.

    Args:
        path: Schema and table, or catalog, schema and table.
    """

    path: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> TableName:
        """The name that a text with dots stands for."""
        return cls(tuple(text.split(".")))

    @property
    def schema(self) -> str:
        """The schema, which Hive and Glue call a database."""
        return self.path[-2]

    @property
    def table(self) -> str:
        """The last part."""
        return self.path[-1]

    def __str__(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """What a catalog says of a name.

    Args:
        location: Address of the table; None for none.
        kind: `external`, or the catalog's own word for a table that it manages, or a view.
        format: `delta`, or what else it is in.
        table_id: The catalog's own id; None if it has none.
    """

    location: str | None
    kind: str
    format: str
    table_id: str | None = None


@dataclass(frozen=True, slots=True)
class NamedTable:
    """What is known of the name of one of a stream's tables.

    Args:
        role: Which table.
        name: As in `TableName`.
        uri: Where the table is.
        table_id: The catalog's own id; None if it has none, or did not answer.
        looked_at: When the catalog was asked, UTC-aware.
        finding: Why the name does not stand for the table; None if it does.
        text: A sentence for people; empty without a finding.
    """

    role: TableRole
    name: str
    uri: str
    table_id: str | None
    looked_at: datetime
    finding: CatalogFinding | None = None
    text: str = ""
