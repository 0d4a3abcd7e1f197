"""Texts of others as messages show them: no login or key of an address, no command to a terminal.

Every error keeps its message so (`clean`); what a store, a catalog, an endpoint says is `one_line`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from stat import S_ISDIR, S_ISREG

NO_TEXT = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff\ufffe\uffff]|\r(?!\n)"
)
"""What no store keeps alike, or what shows a text otherwise than it is: control characters other
than tab and new line, halves of characters, separators of lines, and changes of direction."""
_ADDRESS = re.compile(r"(\w[\w+.-]{0,20}://)([^\s'\"<>]*)")
_LOGIN = re.compile(
    r"(//)[^\s/?#@:\[]{0,100}:(?!\d{1,5}(?:[^\w.@:-]|$))(?:[^\s]{0,500}@|[^\n@]{0,100}@)"
)
"""A user, and what follows the colon and is no port, up to the last `@` of the word: a password may
have any character, also one that ends an address, or a blank."""
_LONGEST_LOGIN = 700
"""Characters; of a text that is cut, as many go: the first part of a login is not known as one."""


def read_regular(path: str | Path, most: int) -> bytes:
    """The first bytes of a regular file: a pipe would hang, and a device never end.

    Args:
        most: How many bytes at most.

    Raises:
        ValueError: It is no regular file.
        OSError: It cannot be read.
    """
    opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # one look: no other file comes between
    try:
        mode = os.fstat(opened).st_mode
        if not S_ISREG(mode):
            raise ValueError("a folder" if S_ISDIR(mode) else "not a regular file")
        with open(opened, "rb", closefd=False) as file:
            return file.read(most)
    finally:
        os.close(opened)


def bare(text: str) -> str:
    """A text without what may be a login or a key in its addresses: users, queries, fragments."""
    return _ADDRESS.sub(_bare_address, _LOGIN.sub(r"\1***@", text))


def _bare_address(found: re.Match[str]) -> str:
    scheme, rest = found[1], found[2]
    place = re.split("[?#]", rest, maxsplit=1)[0]
    end = "?***" if len(place) < len(rest) else ""
    host, slash, path = place.partition("/")
    is_plain = "@" not in host or (scheme.startswith("abfs") and ":" not in host)
    user = "" if is_plain and host.count("@") < 2 else "***@"
    return f"{scheme}{user}{host.rpartition('@')[2] if user else host}{slash}{path}{end}"


def clean(text: str) -> str:
    """A text as `bare` leaves it, with nothing that commands a terminal: each error's message."""
    return visible(bare(text))


def visible(text: str) -> str:
    """A text with nothing that commands a terminal, or shows it otherwise than it is."""
    return NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)


def one_line(text: str, most: int = 500) -> str:
    """A text of somebody else's, of a store or a catalog, in one line, clean and bounded.

    Args:
        most: Characters.
    """
    return cleaned_beginning(" ".join(text.split()), 100 * most, clean)[:most]


def cleaned_beginning(
    text: str, looked_at: int, cleaned: Callable[[str], str], longest: int = 0
) -> str:
    """What is clean of the beginning of a text; its end is left out where the text is cut there.

    The end may be the first part of what would have been taken out.

    Args:
        looked_at: Characters of the text.
        cleaned: Takes something out of a text.
        longest: Characters of the longest that is taken out, if that is longer than a login.
    """
    found = cleaned(text[:looked_at])
    return found if len(text) <= looked_at else found[: -max(_LONGEST_LOGIN, longest)]
