"""What a class's docstring says, in Google's style: its summary, and the meaning of each field."""

from __future__ import annotations

import inspect

from devstack.reference.markdown import one_line


def summary(cls: type) -> str:
    """The first paragraph, in one line."""
    return one_line(_text(cls).partition("\n\n")[0])


def meanings(cls: type) -> dict[str, str]:
    """By field what `Args` says of it; a line may name several, with commas between."""
    found: dict[str, str] = {}
    names: list[str] = []
    for line in _text(cls).partition("Args:\n")[2].partition("\n\n")[0].splitlines():
        if not line.startswith(" " * 8):  # deeper lines go on with what the last one began
            said, _, line = line.partition(":")
            names = [name.strip() for name in said.split(",")]
        found |= {name: one_line(f"{found.get(name, '')} {line}") for name in names}
    return found


def _text(cls: type) -> str:
    return inspect.getdoc(cls) or ""
