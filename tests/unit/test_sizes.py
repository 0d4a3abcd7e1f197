"""Sizes as people say them."""

import pytest

from tideline.model.wording import size_text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_940, "999.9 kB"),
        (999_960, "1.0 MB"),
        (1_234_567_890, "1.2 GB"),
        (5 * 10**18, "5,000.0 PB"),
    ],
)
def test_a_size_is_said_in_the_largest_unit_that_it_fills(size, text):
    """Never as 1000.0 of a smaller one."""
    assert size_text(size) == text
