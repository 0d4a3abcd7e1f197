"""Whether the table at the address is the one that the ledger knows (R13). Pure.

The table's properties hold the stream's name and the ledger's id. So a table or a ledger that was
replaced, shared or created anew is detected. Every commit after the last known version is checked:
those of the ledger carry its id in their commit metadata.
"""

from __future__ import annotations

from collections.abc import Iterator

from tideline.model.incident import Finding
from tideline.model.observation import LoggedCommit, TableObservation

_MOVES_NO_ROW = {
    "OPTIMIZE",
    "VACUUM START",
    "VACUUM END",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "COMPUTE STATS",
    "CREATE TABLE",
}
"""Operations that change no row; other programs may commit them."""


def table_findings(
    known_id: str | None,
    table: TableObservation,
    stream: str,
    ledger_id: str,
    known_version: int | None = None,
) -> Iterator[Finding]:
    """Every reason not to write to the table (R13).

    Args:
        known_id: The table's id as the ledger knows it; None before the first commit.
        table: The table now, with the commits after `known_version`.
        stream: Name of this stream, expected in the table's properties.
        ledger_id: Id of this ledger, expected in the table's properties.
        known_version: Newest version known to hold only what the ledger knows; commits after it
            (exclusive) are checked. None before the first commit: none is checked.
    """
    if not table.exists:
        if known_id is not None:
            yield _changed("the table is gone", f"table {known_id}", "no table at the address")
    elif table.stream is None:
        yield _changed(
            "the table was not created by Tideline",
            f"a table of stream {stream}, or none",
            f"table {table.table_id} without the property tideline.stream",
            decidable=False,
        )
    elif table.stream != stream:
        yield _changed(
            "the table belongs to another stream",
            f"a table of stream {stream}",
            f"a table of stream {table.stream}",
            decidable=False,
        )
    elif table.ledger_id != ledger_id:
        yield _changed(
            "the table belongs to another ledger: this ledger is new or was replaced",
            f"ledger {ledger_id}",
            f"ledger {table.ledger_id}",
            decidable=False,
        )
    elif known_id is not None and table.table_id != known_id:
        yield _changed(
            "the table was replaced by another one", f"table {known_id}", f"table {table.table_id}"
        )
    elif known_version is not None:
        yield from _foreign_changes(table, known_version, ledger_id)


def _foreign_changes(
    table: TableObservation, known_version: int, ledger_id: str
) -> Iterator[Finding]:
    """Removals, restores and replacements by other programs; the audit finds their appends."""
    newest = table.version
    assert newest is not None
    if newest < known_version:
        yield _changed(
            "the table is older than the ledger",
            f"version {known_version} or newer",
            f"version {newest}",
        )
        return
    seen = {commit.version for commit in table.newer}
    unseen = [v for v in range(known_version + 1, newest + 1) if v not in seen]
    if unseen:
        yield _changed(
            "commits since the last known one are no longer in the table's log",
            f"commits {known_version + 1} to {newest}",
            f"none of version {unseen[0]}",
        )
        return
    foreign = [c for c in table.newer if not _is_harmless(c, ledger_id)]
    if foreign:
        shown = "; ".join(f"version {c.version}: {c.operation} {c.detail}" for c in foreign[:3])
        yield _changed(
            "another program removed, restored or replaced rows",
            f"only commits of ledger {ledger_id} after version {known_version}",
            shown,
        )


def _is_harmless(commit: LoggedCommit, ledger_id: str) -> bool:
    return commit.ledger_id == ledger_id or commit.appends or commit.operation in _MOVES_NO_ROW


def _changed(detail: str, expected: str, actual: str, decidable: bool = True) -> Finding:
    return Finding("table_changed", expected, actual, detail=detail, decidable=decidable)
