"""Lists as messages show them."""

from __future__ import annotations

from collections.abc import Iterable


def first_few(items: Iterable[object], most: int = 5, separator: str = ", ") -> str:
    """The first things of a list and how many there are beside, for example `a, b and 3 more`.

    Every message that may have a long list in it uses this.

    Args:
        items: What is listed; empty gives an empty text.
        most: How many of them are named.
        separator: What stands between them: `"; "` where one of them may hold a comma.
    """
    every = list(items)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return f"{separator.join(map(str, every[:most]))}{more}"
