"""Paired timings on a machine that is never quiet: order, ratio, interval, and whether to trust it.

Two sides are timed right after each other, in an order that changes from pair to pair, so that what
drifts over minutes falls out of each pair's ratio. A side timed against itself shows what noise is
left: outside of `BAND` a comparison says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

BAND = (0.95, 1.05)
"""Where the median ratio of a side to itself has to lie."""

_RESAMPLES = 2_000


@dataclass(frozen=True, slots=True)
class Estimate:
    """The median of paired ratios.

    Args:
        ratio: Median of `other / ours`: how many times faster ours is.
        low: Lower bound of its 95 % bootstrap interval.
        high: Upper bound of it.
        pairs: How many pairs there were.
    """

    ratio: float
    low: float
    high: float
    pairs: int

    @property
    def is_even(self) -> bool:
        """Whether a side timed against itself came out as itself."""
        return BAND[0] <= self.ratio <= BAND[1]

    def __str__(self) -> str:
        return f"{self.ratio:.2f} [{self.low:.2f}, {self.high:.2f}], n={self.pairs}"


def orders(pairs: int, seed: int) -> list[tuple[int, int]]:
    """Which side goes first in each pair: as often the one as the other, in random ABBA order.

    Args:
        pairs: How many pairs.
        seed: Decides the order.

    Returns:
        Per pair the sides' numbers, 0 and 1, in the order in which they run.
    """
    chance = random.Random(seed)
    found: list[tuple[int, int]] = []
    while len(found) < pairs:
        first = chance.choice([(0, 1), (1, 0)])
        found += [first, first[::-1]]
    return found[:pairs]


def estimate(ours: Sequence[float], others: Sequence[float], seed: int = 0) -> Estimate:
    """How many times faster ours is.

    Args:
        ours: Seconds per unit of work, one per pair.
        others: The other side's, in the same order.
        seed: Of the resampling.

    Raises:
        ValueError: There are no pairs, or not as many of one side as of the other.
    """
    if not ours or len(ours) != len(others):
        raise ValueError(f"{len(ours)} and {len(others)} timings are no pairs")
    ratios = [theirs / own for own, theirs in zip(ours, others, strict=True)]
    chance = random.Random(seed)
    medians = sorted(median(chance.choices(ratios, k=len(ratios))) for _ in range(_RESAMPLES))
    low, high = medians[int(_RESAMPLES * 0.025)], medians[int(_RESAMPLES * 0.975)]
    return Estimate(median(ratios), low, high, len(ratios))
