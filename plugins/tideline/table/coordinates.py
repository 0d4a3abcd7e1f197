"""Count rows of data files by coordinates: from statistics where they prove it, or else read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable

from tideline.delta_io.arrow_tables import booleans, integers
from tideline.delta_io.parquet_files import read_parquet
from tideline.model.coverage import union
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.verification import LandedRange
from tideline.table.file_statistics import IDENTITY, Coordinates, DataFile, identity_of, runs

Grouped = Iterator[tuple[PartitionIdentity, np.ndarray]]
Reader = Callable[[DataFile], Grouped]


def read_coordinates(table: DeltaTable, file: DataFile, options: Mapping[str, str]) -> Grouped:
    """The offsets in one file, by identity, in the order of the file; reads coordinates only.

    Raises:
        OSError: The file cannot be read.
    """
    columns = [n for n in IDENTITY if n not in file.constants]
    data = read_parquet(table, file.path, [*columns, "offset"], options)
    offsets = integers(data.column("offset"))
    for identity, mask in by_identity(data, file):
        yield identity, offsets if mask is None else offsets[mask]


def by_identity(
    data: pa.Table, file: DataFile
) -> Iterator[tuple[PartitionIdentity, np.ndarray | None]]:
    """The logs that rows of a file belong to, each with a mask over the rows; None means all."""
    columns = [n for n in IDENTITY if n not in file.constants]
    if not columns:
        yield identity_of(file.constants), None
        return
    # Imported lazily: it takes 0.1 s, and most files hold one partition.
    import pyarrow.compute as pc

    groups = data.select(columns).group_by(columns, use_threads=False).aggregate([])
    for group in groups.to_pylist():
        mask = np.ones(len(data), dtype=bool)
        for name in columns:
            mask &= booleans(pc.equal(data.column(name), group[name]))
        yield identity_of({**file.constants, **group}), mask


def count_rows(
    files: Iterable[DataFile], wanted: Coordinates, read: Reader, *, trusting: bool
) -> tuple[dict[PartitionIdentity, LandedRange], int]:
    """Rows and distinct offsets at coordinates, and how many rows of these files are elsewhere.

    Files whose statistics exclude the coordinates are not read.

    Args:
        files: The files.
        wanted: The coordinates.
        read: Reads the coordinates of a file.
        trusting: Whether as many rows as a file's offsets span are taken for one row per offset.
            That is so if the rows were read once, before they were committed.
    """
    rows: dict[PartitionIdentity, int] = defaultdict(int)
    intervals: dict[PartitionIdentity, list[OffsetRange]] = defaultdict(list)
    elsewhere = 0
    for file in files:
        if not wanted.may_be_in(file):
            elsewhere += file.rows
            continue
        sole, span = file.identity, wanted.proven(file) if trusting else None
        if sole is not None and span is not None:
            rows[sole] += file.rows
            intervals[sole].append(span)
            continue
        for identity, offsets in read(file):
            inside = offsets[wanted.mask(identity, offsets)]
            elsewhere += len(offsets) - len(inside)
            rows[identity] += len(inside)
            intervals[identity] += runs(inside)
    found = {i: LandedRange(i, rows[i], union(intervals[i])) for i in rows if rows[i]}
    return found, elsewhere
