"""What shows how far long work is."""

import io
import logging
import re

import pytest
from rich.console import Console

from tideline.launch.progress import ProgressLine, logged_seldom, progress_text, working


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ((0, 12, 12, 0, 6000, None), "0 of 12 partitions done, 0 of 6,000 offsets read"),
        ((0, 1, 1, 0, 1, None), "0 of 1 partition done, 0 of 1 offset read"),
        (
            (4, 12, 12, 2000, 6000, 500.0),
            "4 of 12 partitions done, 2,000 of 6,000 offsets read, 500 a second, at most 8 s left",
        ),
        (
            (1, 3, 1, 1_000_000, 100_000_000, 500_000.0),
            "1 of 3 tasks done, 1,000,000 of 100,000,000 offsets read, 500,000 a second,"
            " at most 3 min 18 s left",
        ),
        (
            (3, 3, 3, 7000, 6000, 7000.0),
            "3 of 3 partitions done, 7,000 of 6,000 offsets read, 7,000 a second, at most 0 s left",
        ),
    ],
)
def test_it_says_how_far_how_fast_and_how_long(facts, text):
    """A task is a partition only where there are as many; the time left is an upper bound."""
    assert progress_text(*facts) == text


@pytest.fixture
def console():
    return Console(file=io.StringIO(), force_terminal=True, width=120, _environ={})


def plain(console):
    """What was written, without the terminal's commands."""
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", console.file.getvalue())


def test_each_text_replaces_the_one_before_and_nothing_is_left(console):
    """The rate counts from the first tasks on, without Spark's start."""
    times = iter([100.0, 102.0, 103.0])
    with ProgressLine("at work", console, lambda: next(times)) as line:
        line.begin(2, 400)
        line.stage("starting Spark")
        line.update(0, 2, 50)
        line.update(1, 2, 250)
        line.end()
        line.begin(1, 10)
        line.update(0, 1, 5)
        line.note("2 of 8 buckets folded")
        line.end()
    shown = plain(console)
    steps = (
        "at work",
        "waiting for Spark",
        "starting Spark",
        "0 of 2 partitions done, 50 of 400 offsets read",
        "1 of 2 partitions done, 250 of 400 offsets read, 100 a second, at most 2 s left",
        "at work",
        "waiting for Spark",
        "0 of 1 partition done, 5 of 10 offsets read",
        "2 of 8 buckets folded",
        "at work",
    )
    at = [shown.index(steps[0])]
    for step in steps[1:]:
        at.append(shown.index(step, at[-1] + 1))
    assert console.file.getvalue().endswith("\x1b[1A\x1b[2K")


def test_colours_obey_no_color(monkeypatch):
    """The convention of no-color.org."""
    for set_to, has_colour in ((None, True), ("1", False)):
        environ = {"TERM": "xterm-256color"} | ({"NO_COLOR": set_to} if set_to else {})
        console = Console(file=io.StringIO(), force_terminal=True, width=120, _environ=environ)
        with ProgressLine("at work", console) as line:
            line.begin(1, 10)
            line.update(0, 1, 5)
        colours = re.findall(r"\x1b\[(?:3[0-7]|38;5;\d+)m", console.file.getvalue())
        assert bool(colours) == has_colour


def test_without_a_terminal_it_is_a_plain_line(caplog, capsys):
    """Nobody wants a thousand frames in the log of a scheduler."""
    with caplog.at_level(logging.INFO, "tideline"), working("reading the tables"):
        pass
    assert caplog.messages == ["reading the tables"]
    assert "\x1b" not in capsys.readouterr().err


def test_a_log_has_a_line_in_half_a_minute_at_most(caplog):
    """Short work has none."""
    times = iter([0.0, 1.0, 29.9, 30.0, 30.0, 31.0, 60.1, 60.1])
    stage = logged_seldom(lambda: next(times))
    with caplog.at_level(logging.INFO, "tideline"):
        for text in ("1 of 5", "2 of 5", "3 of 5", "4 of 5", "5 of 5"):
            stage(text)
    assert caplog.messages == ["3 of 5", "5 of 5"]
