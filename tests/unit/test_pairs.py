"""The page of pairs says of every two features which test meets them; the tests are there."""

import re
from pathlib import Path

from tests.simulation.events import KINDS
from tests.simulation.histories import make_history

PAGE = Path(__file__).parents[1] / "pairs.md"
SECTIONS = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
SLICE = range(1, 2001)
"""Seeds that `make simulation` begins with."""


def rows(section):
    """The cells of a section's table, without its first two lines."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip(" *`") for cell in line.split("|")[1:-1]] for line in lines[2:]]


EVENTS = {name: event for name, _, event in rows(SECTIONS[0])}
TABLE = rows(SECTIONS[1])
PAIRS = {
    (row[0], other): row[number + 1].split()
    for row in TABLE
    for number, other in enumerate(list(EVENTS)[: list(EVENTS).index(row[0])])
}


def test_every_two_features_have_a_cell():
    """Half of a square; nothing is left empty."""
    assert [row[0] for row in TABLE] == list(EVENTS)[1:]
    assert len(PAIRS) == len(EVENTS) * (len(EVENTS) - 1) // 2
    assert not [pair for pair, cell in PAIRS.items() if not cell]


def test_numbers_and_letters_are_explained():
    """Each test in the list meets a pair, and each reason explains one."""
    tests = re.findall(r"^(\d+)\. `tests/[\w/]+\.py::test_\w+`$", SECTIONS[2], re.MULTILINE)
    reasons = re.findall(r"^- \*\*(\w)\*\*: ", SECTIONS[3], re.MULTILINE)
    assert {mark for cell in PAIRS.values() for mark in cell} == {*tests, *reasons, "~"}


def test_the_simulation_meets_what_the_page_says():
    """Among the first histories of `make simulation`, one has the events of both features."""
    histories = [make_history(seed) for seed in SLICE]
    met = [{e[0] for e in h.events} | {h.options.get("on_incident")} for h in histories]
    assert set(EVENTS.values()) <= {*KINDS, "proceed", "none"}
    for (one, other), cell in PAIRS.items():
        wanted = {EVENTS[one], EVENTS[other]}
        assert "~" not in cell or any(wanted <= kinds for kinds in met), (one, other)
