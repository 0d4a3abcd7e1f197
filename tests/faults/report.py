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


class Report:
    """Takes the rows of one test.

    Args:
        rows: Where to put them.
        told_by: The check that makes them pass.
    """

    def __init__(self, rows: list[Row], told_by: str) -> None:
        self._rows = rows
        self.told_by = told_by
        self.told = False

    def tell(self, number: int, fault: str, verdict: str, said: str, counts: Counts) -> None:
        """Add a row."""
        short = " ".join(said.split())[:_SAID_AT_MOST]
        self._rows.append(Row(number, fault, self.told_by, verdict, short, *astuple(counts)))
        self.told = True


def text_of(rows: Iterable[Row]) -> str:
    """The rows as a table, in the catalogue's order."""
    names = [f.name for f in fields(Row)]
    cells = [[str(getattr(r, name)).replace("|", "/") for name in names] for r in rows]
    cells.sort(key=lambda line: (not line[0].isdigit(), line[0].zfill(3)))
    table = [names, *cells]
    widths = [max(len(line[i]) for line in table) for i in range(len(names))]
    table.insert(1, ["-" * width for width in widths])
    return "\n".join(
        "| " + " | ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in table
    )
