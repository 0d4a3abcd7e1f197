"""Where a stream's ledger is stored, and the marker at a location that no longer holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LedgerKind = Literal["delta", "airflow"]
DEFAULT_CONNECTION = "tideline_ledger"


@dataclass(frozen=True, slots=True)
class LedgerLocation:
    """One location of one stream's ledger.

    Args:
        kind: A Delta table, or tables in the database of an Airflow connection.
        address: The Delta table's address, or the Airflow connection's id.
        stream: The stream's name.
    """

    kind: LedgerKind
    address: str
    stream: str

    def __str__(self) -> str:
        return self.address if self.kind == "delta" else f"{self.address}: {self.stream}"

    @property
    def in_stream_file(self) -> str:
        """The keys of a stream file that name this location."""
        if self.kind == "delta":
            return f"`ledger: delta` and `ledger_uri: {self.address}`, without ledger_connection"
        return f"`ledger: airflow` and `ledger_connection: {self.address}`, without ledger_uri"


@dataclass(frozen=True, slots=True)
class RelocationMarker:
    """Marks a location whose ledger was moved away, or was not yet copied to it completely.

    Args:
        state: `moved_to` another location, or an `unfinished` copy of another location.
        ledger_id: Id of the ledger.
        other: The location that the ledger was moved to, or is being copied from.
        by: Who moves it; None if it was moved by a version that did not record it.
    """

    state: Literal["moved_to", "unfinished"]
    ledger_id: str
    other: LedgerLocation
    by: str | None = None

    def refusal(self, location: str) -> str:
        """Why the ledger at this location cannot be opened, and what to do."""
        if self.state == "moved_to":
            return (
                f"ledger {location} was moved to {self.other}{f' by {self.by}' if self.by else ''}:"
                f" set {self.other.in_stream_file}, in the stream file"
            )
        return (
            f"ledger {location} is an unfinished copy of {self.other}: repeat the"
            " `tideline move-ledger` that began it, or set"
            f" {self.other.in_stream_file}, in the stream file"
        )
