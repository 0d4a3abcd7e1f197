"""Cron expressions in a stream file: when runs start, and when a table is folded."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo

from croniter import CroniterError, croniter

PRESETS = ("@hourly", "@daily", "@weekly", "@monthly", "@quarterly", "@yearly")
"""Airflow's names for cron expressions, as its timetables with data intervals take them."""
_WITHOUT_INTERVALS = {
    "@once": "a run without a data interval; leave schedule out and trigger it by hand",
    "@continuous": "runs without data intervals; use a cron expression, such as '* * * * *'",
}
_RANDOM = re.compile(r"(?:^|[\s,])[rh](?:$|[\s,(/])", re.IGNORECASE)
"""Fields of croniter's own: random ones, and hashed ones."""


def refused_schedule(schedule: str) -> str | None:
    """What is allowed instead of a schedule that has no data intervals; None if it is valid."""
    if schedule in PRESETS:
        return None
    if len(schedule.split()) == 5 and croniter.is_valid(schedule):
        return _without_dates(schedule)
    if schedule in _WITHOUT_INTERVALS:
        return f"Airflow makes of it {_WITHOUT_INTERVALS[schedule]}"
    return (
        "a cron expression of five fields, for example '*/10 * * * *', or one of"
        f" {', '.join(PRESETS)}"
    )


def _without_dates(schedule: str) -> str | None:
    """What is wrong with a cron expression that croniter takes; None if nothing is."""
    if _RANDOM.search(schedule):
        return "another time at each parse, and so another Dag; write the numbers out"
    try:
        croniter(schedule).get_next()
    except CroniterError:
        return "no such date ever comes"
    return None


def next_time(schedule: str, timezone: str, after: datetime) -> datetime:
    """The first time of a schedule behind a moment.

    Args:
        schedule: As `refused_schedule` finds nothing wrong with it.
        timezone: Name of the zone that the schedule is in.
        after: Exclusive, aware of its zone.
    """
    found: datetime = croniter(schedule, after.astimezone(ZoneInfo(timezone))).get_next(datetime)
    return found
