"""Lengths of time as people say them."""

from __future__ import annotations

_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def duration_text(seconds: float) -> str:
    """A length of time in its two largest units, for example `2 h 5 min`.

    It is rounded down, so that nobody waits for something that is over; only below ten seconds are
    tenths shown. Every message that shows a length of time uses this; JSON has seconds.

    Args:
        seconds: Seconds; a negative length has a minus sign.
    """
    if seconds < 0:
        return f"-{duration_text(-seconds)}"
    tenths = int(seconds * 10)
    if tenths < 100 and tenths % 10:
        return f"{tenths / 10} s"
    left = tenths // 10
    counts = []
    for size, name in _UNITS:
        count, left = divmod(left, size)
        counts.append((count, name))
    first = next((i for i, (count, _) in enumerate(counts) if count), None)
    if first is None:
        return "0 s"
    return " ".join(f"{count} {name}" for count, name in counts[first : first + 2] if count)
