"""Rows' coordinates as arrays: the logs that rows belong to, and their offsets as ranges."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from tideline.model.offsets import Intervals, OffsetRange, PartitionIdentity, union
from tideline.model.places import Places

IDENTITY = ("topic_id", "generation", "partition")
"""The columns that name the log that a row belongs to."""


def integers(column: pa.ChunkedArray) -> np.ndarray:
    """A column of 64-bit integers; nulls and other types come as pyarrow converts them."""
    if column.type != pa.int64() or column.null_count:
        converted: np.ndarray = column.to_numpy()
        return converted
    parts = [
        np.frombuffer(chunk.buffers()[1], np.int64, len(chunk), chunk.offset * 8)
        for chunk in column.chunks
        if len(chunk)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, np.int64), *parts])


def booleans(column: pa.ChunkedArray) -> np.ndarray:
    """A column of booleans without nulls, as a mask over the rows."""
    return integers(column.cast(pa.int64())).astype(bool)


def by_identity(
    data: pa.Table, constants: Mapping[str, str | int]
) -> Iterator[tuple[PartitionIdentity, np.ndarray | None]]:
    """The logs that rows belong to, each with a mask over the rows; None means all.

    Args:
        constants: Identity columns that are the same in all rows, and not among their columns.
    """
    columns = [n for n in IDENTITY if n not in constants]
    if not columns:
        yield identity_of(constants), None
        return
    # Imported lazily: it takes 0.1 s, and most files hold one partition.
    import pyarrow.compute as pc

    groups = data.select(columns).group_by(columns, use_threads=False).aggregate([])
    for group in groups.to_pylist():
        mask = np.ones(len(data), dtype=bool)
        for name in columns:
            mask &= booleans(pc.equal(data.column(name), group[name]))
        yield identity_of({**constants, **group}), mask


def identity_of(values: Mapping[str, str | int]) -> PartitionIdentity:
    """The log that values of the three identity columns name."""
    return PartitionIdentity(
        str(values["topic_id"]), int(values["generation"]), int(values["partition"])
    )


def runs(offsets: np.ndarray) -> Intervals:
    """Offsets, in any order and with duplicates, as normalized half-open ranges.

    They are sorted, which takes one look where they are in order, as in most files. `np.unique` of
    NumPy 2.3 and later hashes: for five million offsets that took 4.7 s, and this 0.2 s.
    """
    if not len(offsets):
        return ()
    ordered = np.sort(offsets, kind="stable")
    breaks = np.flatnonzero(np.diff(ordered) > 1)
    starts = ordered[np.concatenate(([0], breaks + 1))]
    ends = ordered[np.concatenate((breaks, [len(ordered) - 1]))] + 1
    return tuple(OffsetRange(int(s), int(e)) for s, e in zip(starts, ends, strict=True))


def copies(offsets: np.ndarray) -> tuple[tuple[OffsetRange, int], ...]:
    """Ranges of offsets that occur more than once, each with its number of surplus rows."""
    ordered = np.sort(offsets, kind="stable")
    surplus = ordered[1:][np.diff(ordered) == 0]
    return tuple(
        (r, int(np.diff(np.searchsorted(surplus, (r.start_offset, r.end_offset)))[0]))
        for r in runs(surplus)
    )


def places_in(rows: Iterable[pa.Table]) -> Places:
    """Where rows stand, by their coordinates."""
    found: dict[PartitionIdentity, list[OffsetRange]] = defaultdict(list)
    for data in rows:
        offsets = integers(data["offset"])
        for identity, mask in by_identity(data, {}):
            found[identity] += runs(offsets if mask is None else offsets[mask])
    return Places({identity: union(offsets) for identity, offsets in found.items()})


def topics_in(rows: pa.Table) -> dict[str, str]:
    """The names of their topics, by topic id."""
    found = rows.select(["topic_id", "topic"]).group_by(["topic_id", "topic"]).aggregate([])
    return {row["topic_id"]: row["topic"] for row in found.to_pylist()}
