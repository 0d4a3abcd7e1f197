"""Lists as messages show them."""

import re
from pathlib import Path

import pytest

from tideline.model.offsets import OffsetRange
from tideline.model.wording import first_few, not_among

PACKAGE = Path(__file__).parents[2] / "plugins" / "tideline"


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], ""),
        ([OffsetRange(0, 3)], "[0, 3)"),
        ([1, 2, 3], "1, 2, 3"),
        ([1, 2, 3, 4], "1, 2, 3 and 1 more"),
        (iter(range(100)), "0, 1, 2 and 97 more"),
    ],
)
def test_what_is_not_named_is_counted(items, said):
    """Nobody may take the first few for all of them."""
    assert first_few(items, 3) == said


def test_things_that_hold_commas_stand_apart():
    """Offsets with a reason each: a comma does not tell where one ends."""
    assert first_few(["[0, 1) (a, b)", "[2, 3)"], 1, "; ") == "[0, 1) (a, b) and 1 more"
    assert first_few(["[0, 1) (a, b)", "[2, 3)"], separator="; ") == "[0, 1) (a, b); [2, 3)"


@pytest.mark.parametrize(
    ("given", "known", "said"),
    [
        ("ordrs", ["orders", "pay"], "got 'ordrs', did you mean orders? allowed: orders, pay"),
        ("KEY_ID", ["key_id"], "got 'KEY_ID', did you mean key_id? allowed: key_id"),
        ("x", ["orders"], "got 'x'; allowed: orders"),
        ("x", [], "got 'x'; there is none"),
    ],
)
def test_a_name_that_is_none_is_told_with_those_that_there_are(given, known, said):
    assert not_among(given, known) == said


def test_no_message_of_the_package_counts_the_rest_by_itself():
    """`and {len(...) - 5} more` inside a sentence is what `first_few` is for."""
    by_hand = re.compile(r"\{len\([^{}]*\) - [^{}]*\}[a-z ]* more[^:]")
    found = [
        f"{file.name}: {line.strip()}"
        for file in sorted(PACKAGE.rglob("*.py"))
        for line in file.read_text().splitlines()
        if by_hand.search(line) and file.name != "wording.py"
    ]
    assert found == []
