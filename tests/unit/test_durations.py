"""Lengths of time as people say them, wherever a message shows one."""

import re
from pathlib import Path

import pytest

from tideline.model.head import reaches_text
from tideline.model.wording import duration_text

PACKAGE = Path(__file__).parents[2] / "plugins" / "tideline"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.05, "0 s"),
        (0.5, "0.5 s"),
        (2, "2 s"),
        (9.99, "9.9 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3599.9, "59 min 59 s"),
        (3600, "1 h"),
        (3601, "1 h"),
        (7500, "2 h 5 min"),
        (7559.999, "2 h 5 min"),
        (86_400, "1 d"),
        (90_000, "1 d 1 h"),
        (86_460, "1 d"),
        (365 * 86_400, "365 d"),
        (-7500, "-2 h 5 min"),
    ],
)
def test_the_two_largest_units_are_said(seconds, text):
    """Neither 7500 s nor 1:23:45.678."""
    assert duration_text(seconds) == text


def test_what_is_overdue_is_said_so():
    """A negative length says nothing at 3 a.m."""
    assert reaches_text("orders", 0, 7, 7500) == (
        "orders-0: retention reaches offset 7 in 2 h 5 min"
    )
    overdue = reaches_text("orders", 0, 7, -30)
    assert overdue == "orders-0: retention may delete offset 7 at any time, for 30 s now"
    assert "unknown" in reaches_text("orders", 0, 7, None)


def test_no_message_of_the_package_formats_seconds_by_itself():
    """`{...seconds...} s` in a text is what `duration_text` is for."""
    by_hand = re.compile(r"\{[^{}]*(?:seconds|duration)[^{}]*:[,.0-9]*f\}|%\.0f s\b")
    found = [
        f"{file.name}: {line.strip()}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for line in file.read_text().splitlines()
        if by_hand.search(line)
    ]
    assert found == []
