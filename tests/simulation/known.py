"""Faults that are found and not mended yet, so that an exploration goes on past them.

Each entry is a part of the problem's text, and why it is there. An empty table is the aim.
"""

KNOWN: dict[str, str] = {
    "STUCK: backfill": "a backfill whose plan can no longer be read stays planned",
    "STUCK: window": "a backfill whose plan can no longer be read stays planned",
    "landed 2 times": "below a truncation's cut, an older generation's rows are landed again",
    "LOST: record": "a log truncated and expired: what has expired is not recorded",
    "passed [": "a log truncated and expired: what has expired is not recorded",
    "audit: gaps": "two closed records of one plan: only the first is read",
    "audit: missing": "a commit that another engine has overwritten goes unnoticed",
    "table_changed: the table is gone": "an open plan remembers the table that is gone",
}


def known_fault(problems: list[str]) -> str | None:
    """Why a failure is no news; None if it is."""
    return next((why for part, why in KNOWN.items() if problems and part in problems[0]), None)
