"""Sizes as people say them."""

from __future__ import annotations

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def size_text(size_bytes: float) -> str:
    """A size in the largest unit that it fills, for example `1.2 GB`; a unit is 1,000 of the last.

    Every message that shows a size uses this; JSON has bytes.

    Args:
        size_bytes: Bytes, 0 or more.
    """
    size, unit = float(size_bytes), 0
    while round(size, 1) >= 1000 and unit < len(_UNITS) - 1:
        size, unit = size / 1000, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:,.1f} {_UNITS[unit]}"
