"""Whether the table at the address is the one that the ledger knows (R13). Pure.

The table carries the stream's name and the ledger's id in its properties, so neither table nor
ledger can be swapped, shared or started anew without the other noticing.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.core.incident import Finding
from tideline.core.observation import TableObservation


def table_findings(
    known_id: str | None, table: TableObservation, stream: str, ledger_id: str
) -> Iterator[Finding]:
    """What speaks against writing to the table (R13).

    Args:
        known_id: The table's id as the ledger knows it; None before the first commit.
        table: The table now.
        stream: Name of the stream that it should carry.
        ledger_id: Id of the ledger that it should carry.
    """

    def changed(cause: str, expected: str, actual: str, next_step: str) -> Finding:
        return Finding("table_changed", cause, expected, actual, next_step)

    if not table.exists:
        if known_id is not None:
            yield changed(
                "the table is gone",
                f"table {known_id}",
                "no Delta table at the address",
                "restore the table, or give the stream a new table and a new ledger",
            )
        return
    if table.stream is None:
        yield changed(
            "the table was not created by Tideline",
            f"a table of stream {stream}, or none",
            f"table {table.table_id} without Tideline's mark",
            "give the stream a table address of its own",
        )
    elif table.stream != stream:
        yield changed(
            "the table belongs to another stream",
            f"a table of stream {stream}",
            f"a table of stream {table.stream}",
            "one stream, one table: give this stream an address of its own",
        )
    elif table.ledger_id != ledger_id:
        yield changed(
            "the table belongs to another ledger; this ledger is new or was replaced",
            f"ledger {ledger_id}",
            f"ledger {table.ledger_id}",
            "restore the ledger that wrote this table, or give the stream a new table address",
        )
    elif known_id is not None and table.table_id != known_id:
        yield changed(
            "the table was replaced",
            f"table {known_id}",
            f"table {table.table_id}",
            "restore the table that the ledger knows",
        )
