"""What is measured beside the comparisons: tables of rows, kept as they are."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Table:
    """One section of the report.

    Args:
        title: Its heading.
        note: What was done, in a sentence or two.
        head: Names of the columns.
        rows: As many cells each.
    """

    title: str
    note: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row, and show it."""
        assert len(cells) == len(self.head), cells
        self.rows.append(cells)
        print(" | ".join(cells), flush=True)


def judged(value: float, passes: float, aim: float | None = None) -> str:
    """Whether something that should be small is: `aim`, `pass` or `miss`."""
    if aim is not None and value <= aim:
        return "aim"
    return "pass" if value <= passes else "miss"


def milliseconds(seconds: float) -> str:
    """As people read it."""
    return f"{seconds * 1000:,.0f} ms" if seconds < 10 else f"{seconds:.1f} s"
