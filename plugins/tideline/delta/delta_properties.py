"""Properties of a Delta table that say how long something is kept, as Delta reads them.

The grammar is that of Delta's `DeltaConfigs.parseCalendarInterval`. delta-rs reads the first number
and the first unit only, in lower case, and takes its default for all else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

DELETED, LOG = "delta.deletedFileRetentionDuration", "delta.logRetentionDuration"
"""How long a file that was taken out is kept, and how long an entry of the log is."""
DELETED_HOURS, LOG_HOURS = 7 * 24, 30 * 24
"""Delta's defaults."""
ALLOWED = (
    "'interval 30 days' or 'interval 2 weeks 12 hours': weeks, days, hours, minutes, seconds,"
    " milliseconds and microseconds are added up, to a million days at most; months and years are"
    " not allowed"
)
HOUR_MS = 3_600_000
_UNITS = {
    "week": 7 * 24 * HOUR_MS * 1000,
    "day": 24 * HOUR_MS * 1000,
    "hour": HOUR_MS * 1000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "millisecond": 1000,
    "microsecond": 1,
}
"""In microseconds."""
_PART = re.compile(
    rf"\s*([+-]?)\s*(?:(\d{{1,18}})\s+({'|'.join(_UNITS)})s?"
    r"|(\d{0,18})\.(\d{0,9})\s+seconds?)(?:\s|$)",
    re.ASCII,
)
"""A number and its unit; of seconds only there is a fraction."""
_MOST = 1_000_000 * _UNITS["day"]
_AS_DELTA_RS = re.compile(r"interval \d{1,9} (week|day|hour|minute|second)s?")


def interval_ms(text: str) -> int | None:
    """An interval in whole milliseconds, rounded up; None where it is none that is allowed."""
    text = text.strip().lower().removeprefix("interval ")
    at, total = 0, 0
    while at < len(text):
        if (part := _PART.match(text, at)) is None:
            return None
        sign, number, unit, whole, fraction = part.groups()
        if not (number or whole or fraction):
            return None
        us = int(number) * _UNITS[unit] if number else int(whole or 0) * 1_000_000
        us += int((fraction or "0").ljust(9, "0")) // 1000
        total += -us if sign == "-" else us
        at = part.end()
    return -(-total // 1000) if text and 0 <= total <= _MOST else None


def kept_ms(properties: Mapping[str, str | None], name: str, default_hours: int) -> int | None:
    """How long a table asks for, in milliseconds; None where what it says is not understood."""
    text = properties.get(name)
    return default_hours * HOUR_MS if text is None else interval_ms(text)


def is_known_to_delta_rs(properties: Mapping[str, str | None], name: str) -> bool:
    """Whether delta-rs, too, reads the property as it is meant."""
    text = properties.get(name)
    return text is None or _AS_DELTA_RS.fullmatch(text) is not None


def kept_for(hours: int) -> dict[str, str]:
    """Properties of a table whose files are kept so long; none where Delta's default does."""
    return {DELETED: f"interval {hours} hours"} if hours > DELETED_HOURS else {}
