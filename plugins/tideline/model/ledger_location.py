"""Where a stream's ledger lives, and the mark in a home that is not in charge of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LedgerKind = Literal["delta", "airflow"]
DEFAULT_CONNECTION = "tideline_ledger"


@dataclass(frozen=True, slots=True)
class LedgerLocation:
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


@dataclass(frozen=True, slots=True)
class RelocationMarker:
    """Stands in a home that is no longer, or not yet, in charge of its ledger.

    Args:
        state: `moved_to` another home for good, or an `unfinished` copy of another home.
        ledger_id: Whose mark it is.
        other: The home that it went to, or that it is a copy of.
    """

    state: Literal["moved_to", "unfinished"]
    ledger_id: str
    other: LedgerLocation

    def refusal(self, location: str) -> str:
        """Why the home at a location cannot be opened, and what to do."""
        if self.state == "moved_to":
            return (
                f"ledger {location} was moved to {self.other}: set {self.other.in_stream_file}, in"
                " the stream file"
            )
        return (
            f"ledger {location} is an unfinished copy of {self.other}: repeat the"
            " `tideline move-ledger` that began it, or set"
            f" {self.other.in_stream_file}, in the stream file"
        )
