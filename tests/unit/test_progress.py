"""The line that shows how far Spark is."""

import io

import pytest

from tideline.launch.progress import ProgressLine, progress_text


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ((0, 12, 12, 0, 6000, None), "0 of 12 partitions done, 0 of 6,000 offsets read"),
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


def test_each_text_replaces_the_one_before_and_nothing_is_left():
    """The rate counts from the first tasks on, without Spark's start."""
    terminal, times = io.StringIO(), iter([100.0, 102.0, 103.0])
    line = ProgressLine(terminal, lambda: next(times))
    line.begin(2, 400)
    line.update(0, 2, 50)
    line.update(1, 2, 250)
    line.begin(1, 10)
    line.update(0, 1, 5)
    line.end()
    shown = terminal.getvalue().split("\r\x1b[2K")
    assert shown == [
        "",
        "waiting for Spark",
        "0 of 2 partitions done, 50 of 400 offsets read",
        "1 of 2 partitions done, 250 of 400 offsets read, 100 a second, at most 2 s left",
        "waiting for Spark",
        "0 of 1 partitions done, 5 of 10 offsets read",
        "",
    ]
