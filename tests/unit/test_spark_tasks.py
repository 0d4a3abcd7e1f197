"""How ranges become Spark's tasks."""

import pytest

from tideline.spark.source import split_and_packed


@pytest.mark.parametrize(
    ("counts", "pieces", "tasks"),
    [
        ([10], 1, 1),
        ([500_000], 1, 1),
        ([500_001], 2, 2),
        ([1_000_000, 1_000_000], 4, 4),
        ([4_500_000, 10, 10, 10], 12, 12),
        ([2_500] * 4, 4, 4),
        ([10] * 5, 5, 4),
        ([10] * 1_000, 1_000, 20),
        ([60_000] * 100, 100, 100),
        ([25_000] * 100, 100, 50),
    ],
)
def test_long_ranges_are_split_and_short_ones_share(counts, pieces, tasks):
    """So neither one core does it all, nor does every partition become a file."""
    assert split_and_packed(counts) == (pieces, tasks)
