"""How long a table asks for something to be kept: Delta's own grammar of intervals."""

import pytest

from tideline.delta.delta_properties import (
    DELETED,
    LOG,
    interval_ms,
    is_known_to_delta_rs,
    kept_for,
    kept_ms,
)

HOUR = 3_600_000
DAY = 24 * HOUR


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 30 days", 30 * DAY),
        ("30 days", 30 * DAY),
        ("INTERVAL 30 DAYS", 30 * DAY),
        ("Interval 1 Day", DAY),
        ("  interval   2 weeks\t3 days ", 17 * DAY),
        ("interval 7 days 12 hours", 7 * DAY + 12 * HOUR),
        ("interval 1 week 1 day 1 hour 1 minute 1 second 1 millisecond", 8 * DAY + HOUR + 61_001),
        ("interval 2592000000 milliseconds", 30 * DAY),
        ("interval 1 microsecond", 1),
        ("interval 1.5 seconds", 1500),
        ("interval .0001 seconds", 1),
        ("interval 2 days -1 hours", 47 * HOUR),
        ("interval + 1 day", DAY),
        ("interval 0 hours", 0),
        ("interval 1000000 days", 1_000_000 * DAY),
    ],
)
def test_what_delta_reads_is_read(text, expected):
    """As Spark's `stringToInterval` has it: any case, several units, fractions of seconds."""
    assert interval_ms(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", "interval", "interval ", "30", "days", "interval days", "interval 30"),
        *("interval '30' days", "interval 1 month", "interval 1 year", "interval 1.5 days"),
        *("interval -1 days", "interval 30days", "interval 30 dayss", "interval 1 nanosecond"),
        *("interval 30 days and 1 hour", "interval\t30 days", "interval interval 30 days"),
        *(
            "interval 1 day,2 hours",
            "interval \u0663 days",
            "interval 1_0 days",
            "interval . seconds",
        ),
        *("interval 1000001 days", "interval 99999999999999999999 days", "P30D", "for ever"),
    ],
)
def test_what_delta_does_not_read_is_no_interval(text):
    """Nobody knows what it means, so it is no number of hours."""
    assert interval_ms(text) is None


def test_what_a_table_does_not_say_is_deltas_default():
    """Of delta-rs only one number with one unit is read as it is meant."""
    assert kept_ms({}, DELETED, 168) == 7 * DAY
    assert kept_ms({DELETED: "2 weeks"}, DELETED, 168) == 14 * DAY
    assert kept_ms({DELETED: "soon"}, DELETED, 168) is None
    assert kept_for(168) == {}
    assert kept_for(169) == {DELETED: "interval 169 hours"}
    known = [
        is_known_to_delta_rs({LOG: t}, LOG)
        for t in ("interval 60 days", "60 days", "Interval 1 day")
    ]
    assert (known, is_known_to_delta_rs({}, LOG)) == ([True, False, False], True)
