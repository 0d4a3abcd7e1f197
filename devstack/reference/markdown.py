"""Tables and code in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table, and an empty one."""
    lines = [_row(headings), "|" + "---|" * len(headings)]
    return [*lines, *(_row(row) for row in rows), ""]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def code(text: object) -> str:
    """A name or a value as code."""
    return f"`{text}`"


def codes(texts: Iterable[object]) -> str:
    """Several of them, with commas between."""
    return ", ".join(code(text) for text in texts)


def one_line(text: str) -> str:
    """A docstring or a description without its line breaks."""
    return " ".join(text.split())


def page(title: str, source: str, *lines: str) -> str:
    """A whole page; it says what it is made of."""
    said = f"`make reference` writes this page from {source}; a test compares the two."
    return "\n".join([f"# {title}", "", said, "", *lines]).rstrip() + "\n"
