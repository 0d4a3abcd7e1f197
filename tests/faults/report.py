"""The rows of the faults catalogue, as they came out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields

from tests.faults.oracle import Counts

_SAID_AT_MOST = 100


@dataclass(frozen=True)
class Row:
    """One fault and what became of it.

    Args:
        number: Row of the catalogue.
        told_by: The check that makes it pass.
        verdict: Class of the finding, or `none`.
        said: The beginning of what the run said.
    """

    row: int | str
    fault: str
    told_by: str
    verdict: str
    said: str
    lost: int | str = "?"
    duplicate: int | str = "?"
    silent: int | str = "?"


@dataclass(frozen=True)
class CrashRow:
    """One crash and what became of it.

    Args:
        crash_point: Where or how something died.
        verdict: `one copy`, or what halted on the way there.
        attempts: Runs that were started, the one that died included.
    """

    crash_point: str
    ledger: str
    verdict: str
    attempts: int | str = "?"
    lost: int | str = "?"
    duplicate: int | str = "?"


class Report:
    """Takes the rows of one test.

    Args:
        rows: Where to put them.
        told_by: The check that makes them pass.
    """

    def __init__(self, rows: list[Row | CrashRow], told_by: str) -> None:
        self._rows = rows
        self.told_by = told_by
        self.told = False

    def tell(self, number: int, fault: str, verdict: str, said: str, counts: Counts) -> None:
        """Add a row."""
        short = " ".join(said.split())[:_SAID_AT_MOST]
        self._rows.append(Row(number, fault, self.told_by, verdict, short, *astuple(counts)))
        self.told = True

    def tell_crash(
        self, crash_point: str, ledger: str, verdict: str, attempts: int, counts: Counts
    ) -> None:
        """Add a row of the crash matrix."""
        row = CrashRow(crash_point, ledger, verdict, attempts, counts.lost, counts.duplicate)
        self._rows.append(row)
        self.told = True


def text_of(kind: type[Row] | type[CrashRow], rows: Iterable[Row | CrashRow]) -> str:
    """The rows of one kind as a table: the catalogue in its order, crashes as they were tried."""
    names = [f.name for f in fields(kind)]
    chosen = [row for row in rows if isinstance(row, kind)]
    cells = [[str(getattr(r, name)).replace("|", "/") for name in names] for r in chosen]
    if kind is Row:
        cells.sort(key=lambda line: (not line[0].isdigit(), line[0].zfill(3)))
    table = [[name.replace("_", " ") for name in names], *cells]
    widths = [max(len(line[i]) for line in table) for i in range(len(names))]
    table.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in table
    )
