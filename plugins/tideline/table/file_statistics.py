"""What a data file of the table holds, as far as its statistics prove it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from tideline.model.coverage import Intervals
from tideline.model.offsets import OffsetRange, PartitionIdentity

IDENTITY = ("topic_id", "generation", "partition")
"""The columns that name the log that a row belongs to."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """One active data file as the transaction log describes it.

    Args:
        path: As in the table's log.
        rows: Number of rows.
        constants: Identity columns that have one value in the whole file.
        low: Smallest offset (inclusive); None without statistics.
        high: Largest offset, **inclusive**; None without statistics.
        newest: Largest timestamp, UTC-aware; None without statistics.
    """

    path: str
    rows: int
    constants: Mapping[str, str | int]
    low: int | None
    high: int | None
    newest: datetime | None = None

    @property
    def identity(self) -> PartitionIdentity | None:
        """The one log that the file's rows belong to; None if there may be several."""
        return None if len(self.constants) < len(IDENTITY) else identity_of(self.constants)


def identity_of(values: Mapping[str, str | int]) -> PartitionIdentity:
    """The log that values of the three identity columns name."""
    return PartitionIdentity(
        str(values["topic_id"]), int(values["generation"]), int(values["partition"])
    )


def runs(offsets: np.ndarray) -> Intervals:
    """Offsets, in any order and with duplicates, as normalized half-open ranges."""
    distinct = np.unique(offsets)
    if not len(distinct):
        return ()
    breaks = np.flatnonzero(np.diff(distinct) != 1)
    starts = distinct[np.concatenate(([0], breaks + 1))]
    ends = distinct[np.concatenate((breaks, [len(distinct) - 1]))] + 1
    return tuple(OffsetRange(int(s), int(e)) for s, e in zip(starts, ends, strict=True))


def copies(offsets: np.ndarray) -> tuple[tuple[OffsetRange, int], ...]:
    """Ranges of offsets that occur more than once, each with its number of surplus rows."""
    distinct, counts = np.unique(offsets, return_counts=True)
    repeated, extra = distinct[counts > 1], counts[counts > 1] - 1
    return tuple(
        (r, int(extra[(repeated >= r.start_offset) & (repeated < r.end_offset)].sum()))
        for r in runs(repeated)
    )


def may_hold(file: DataFile, bounds: OffsetRange | None) -> bool:
    """Whether the file may have rows inside the bounds (half-open); never if they are None."""
    if bounds is None:
        return False
    if file.low is None or file.high is None:
        return True
    return file.low < bounds.end_offset and file.high >= bounds.start_offset


def proven_span(file: DataFile, bounds: OffsetRange) -> OffsetRange | None:
    """The offsets of the file, if its statistics prove them and all are inside the bounds.

    Args:
        file: A file with rows of one partition.
        bounds: Half-open.

    Returns:
        None if the file has to be read.
    """
    if file.low is None or file.high is None or file.rows != file.high - file.low + 1:
        return None
    if file.low < bounds.start_offset or file.high >= bounds.end_offset:
        return None
    return OffsetRange(file.low, file.high + 1)
