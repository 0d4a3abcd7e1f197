"""How messages say things: lists, values that somebody gave, reasons, sizes and lengths of time.

Whatever comes from outside is bounded here, however long or deep it is: a message stands in logs,
in notes of Airflow and in the ledger.
"""

from __future__ import annotations

from collections.abc import Iterable
from reprlib import Repr

from tideline.texts import NO_TEXT, bare

LONGEST_REASON = 2000
"""Characters of a reason; it becomes part of what every task reads."""
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 70
_SHORT.maxlevel = 3
_SIZES = ("B", "kB", "MB", "GB", "TB", "PB")
_DURATIONS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def first_few(items: Iterable[object], most: int = 5, separator: str = ", ") -> str:
    """The first things of a list and how many there are beside, for example `a, b and 3 more`.

    Every message that may have a long list in it uses this.

    Args:
        separator: `"; "` where one of the items may hold a comma.
    """
    every = list(items)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return f"{separator.join(map(str, every[:most]))}{more}"


def how_many(number: int, thing: str) -> str:
    """How many there are of a thing: `1 partition`, `20,000 offsets`."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def shown(value: object, most: int = 80) -> str:
    """A value that somebody gave, as `repr` shows it, but never long and never too deep.

    Args:
        most: Characters.
    """
    value = bare(value) if isinstance(value, str) else value
    try:
        text = _SHORT.repr(value)
    except ValueError:  # a number with more digits than Python prints
        text = f"a very large {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."


def not_among(value: str, known: Iterable[str], most: int = 20) -> str:
    """That a name is none of those that there are, for messages, and which ones are near.

    For example `got 'orderz', did you mean orders? allowed: orders, payments`. Every message about
    a name that somebody typed uses this.
    """
    every = list(known)
    allowed = f"allowed: {first_few(every, most)}" if every else "there is none"
    return f"got {shown(value)}{did_you_mean(value, every)} {allowed}"


def did_you_mean(value: str, known: Iterable[str]) -> str:
    """The end of `got VALUE`: a question with the names that are near, a semicolon if none is.

    A name in another case is near.
    """
    # Imported here: a run needs none.
    from difflib import get_close_matches

    every = list(known)
    near = get_close_matches(value, every, 3)
    near = near or [name for name in every if name.lower() == value.lower()]
    return f", did you mean {' or '.join(near)}?" if near else ";"


def system_message(error: OSError | ValueError) -> str:
    """Why a file cannot be read or written, without Python's names and numbers."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    return "not text in UTF-8" if isinstance(error, UnicodeError) else str(error)


def key_shown(key: object) -> str:
    """A key that somebody gave, for messages: as `shown`, without its quotation marks."""
    text = shown(key)
    return text[1:-1] if isinstance(key, str) and text.endswith(text[0]) else text


def kept_reason(text: str) -> str:
    """What is kept of a reason that cannot be refused any more."""
    text = NO_TEXT.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= LONGEST_REASON else f"{text[: LONGEST_REASON - 3]}..."


def reason_problem(text: str, wanted: str | None = None) -> str | None:
    """What is wrong with a reason; None if nothing is. If one is `wanted`, a blank one is wrong."""
    if wanted is not None and not text.strip():
        return f"got nothing; allowed: {wanted}"
    if len(text) > LONGEST_REASON:
        return f"got {len(text):,} characters; allowed: {LONGEST_REASON:,}"
    if found := NO_TEXT.search(text):
        return f"got the character {found[0]!a}; allowed: text, with tabs and new lines"
    return None


def size_text(size_bytes: float) -> str:
    """A size in the largest unit that it fills, for example `1.2 GB`; a unit is 1,000 of the last.

    Every message that shows a size uses this; JSON has bytes.
    """
    size, unit = float(size_bytes), 0
    # rounded first: 999.96 would be shown as 1,000.0 of a unit
    while round(size, 1) >= 1000 and unit < len(_SIZES) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:,.1f} {_SIZES[unit]}"


def duration_text(seconds: float) -> str:
    """A length of time in its two largest units, for example `2 h 5 min`.

    It is rounded down, so that nobody waits for something that is over; only below ten seconds are
    tenths shown. Every message that shows a length of time uses this; JSON has seconds.
    """
    if seconds < 0:
        return f"-{duration_text(-seconds)}"
    tenths = int(seconds * 10)
    if tenths < 100 and tenths % 10:
        return f"{tenths / 10} s"
    left = tenths // 10
    counts = []
    for size, name in _DURATIONS:
        count, left = divmod(left, size)
        counts.append((count, name))
    first = next((i for i, (count, _) in enumerate(counts) if count), None)
    if first is None:
        return "0 s"
    return " ".join(f"{count} {name}" for count, name in counts[first : first + 2] if count)
