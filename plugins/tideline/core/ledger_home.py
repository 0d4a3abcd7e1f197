"""Where a stream's ledger lives: an address, and the lines of a stream file that name it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LedgerKind = Literal["delta", "airflow"]
DEFAULT_CONNECTION = "tideline_ledger"


@dataclass(frozen=True, slots=True)
class LedgerHome:
    """One place for one stream's ledger.

    Args:
        kind: A Delta table, or tables in the database of an Airflow connection.
        address: The table's address, or the connection's id.
        stream: The stream's name.
    """

    kind: LedgerKind
    address: str
    stream: str

    def __str__(self) -> str:
        return self.address if self.kind == "delta" else f"{self.address}: {self.stream}"

    @property
    def in_stream_file(self) -> str:
        """What a stream file has to say to mean this home."""
        if self.kind == "delta":
            return f"`ledger: delta` and `ledger_uri: {self.address}`, without ledger_connection"
        return f"`ledger: airflow` and `ledger_connection: {self.address}`, without ledger_uri"
