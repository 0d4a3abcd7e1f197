"""What a data file of the table holds, as far as its statistics prove it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from tideline.model.coverage import Intervals
from tideline.model.offsets import OffsetRange, PartitionIdentity

IDENTITY = ("topic_id", "generation", "partition")
"""The columns that say which log a row belongs to."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One active data file as the transaction log describes it.

    Args:
        constants: Identity columns that have one value in the whole file.
        low, high: Smallest and largest offset (inclusive); None without statistics.
        newest: Largest timestamp; None without statistics.
    """

    path: str
    rows: int
    constants: Mapping[str, str | int]
    low: int | None
    high: int | None
    newest: datetime | None = None

    @property
    def identity(self) -> PartitionIdentity | None:
        """The one log that the file's rows belong to, None if there may be several."""
        if len(self.constants) < len(IDENTITY):
            return None
        found = self.constants
        return PartitionIdentity(
            str(found["topic_id"]), int(found["generation"]), int(found["partition"])
        )


def runs(offsets: np.ndarray) -> Intervals:
    """Offsets in any order, copies allowed, as normalized ranges."""
    distinct = np.unique(offsets)
    if not len(distinct):
        return ()
    breaks = np.flatnonzero(np.diff(distinct) != 1)
    starts = distinct[np.concatenate(([0], breaks + 1))]
    ends = distinct[np.concatenate((breaks, [len(distinct) - 1]))] + 1
    return tuple(OffsetRange(int(s), int(e)) for s, e in zip(starts, ends, strict=True))


def copies(offsets: np.ndarray) -> tuple[tuple[OffsetRange, int], ...]:
    """Ranges of offsets that stand more than once, and how many rows there are too many."""
    distinct, counts = np.unique(offsets, return_counts=True)
    repeated, extra = distinct[counts > 1], counts[counts > 1] - 1
    return tuple(
        (r, int(extra[(repeated >= r.start_offset) & (repeated < r.end_offset)].sum()))
        for r in runs(repeated)
    )


def may_hold(file: DataFile, bounds: OffsetRange | None) -> bool:
    """Whether the file may have rows inside the bounds."""
    if bounds is None:
        return False
    if file.low is None or file.high is None:
        return True
    return file.low < bounds.end_offset and file.high >= bounds.start_offset


def proven_span(file: DataFile, bounds: OffsetRange) -> OffsetRange | None:
    """What the file holds, if its statistics alone say so and all of it lies inside."""
    if file.low is None or file.high is None or file.rows != file.high - file.low + 1:
        return None
    if file.low < bounds.start_offset or file.high >= bounds.end_offset:
        return None
    return OffsetRange(file.low, file.high + 1)
