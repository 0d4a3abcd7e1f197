"""Lists and values as messages show them, and how long a person's own words may be."""

from __future__ import annotations

import re
from collections.abc import Iterable
from reprlib import Repr

LONGEST_REASON = 2000
"""Characters of a reason; it becomes part of what every task reads."""
_NO_TEXT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]|\r(?!\n)"
)
"""What no store keeps alike, or what shows a text otherwise than it is: control characters other
than tab and new line, halves of characters, and changes of direction."""
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 70
_SHORT.maxlevel = 3


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


def shown(value: object, most: int = 80) -> str:
    """A value that somebody gave, as `repr` shows it, but never long and never too deep.

    Args:
        value: It may be of any size and nested as deeply as memory allows.
        most: Characters.
    """
    try:
        text = _SHORT.repr(value)
    except ValueError:  # a number with more digits than Python prints
        text = f"a very large {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def key_shown(key: object) -> str:
    """A key that somebody gave, for messages: as `shown`, without its quotation marks."""
    text = shown(key)
    return text[1:-1] if isinstance(key, str) and text.endswith(text[0]) else text


def kept_reason(text: str) -> str:
    """What is kept of a reason that cannot be refused any more."""
    text = _NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."


def reason_problem(text: str) -> str | None:
    """What is wrong with a reason; None if nothing is."""
    if len(text) > LONGEST_REASON:
        return f"got {len(text):,} characters; allowed: {LONGEST_REASON:,}"
    if found := _NO_TEXT.search(text):
        return f"got the character {found[0]!a}; allowed: text, with tabs and new lines"
    return None
