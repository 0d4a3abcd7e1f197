"""Which raw rows have no value: coordinates of tombstones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from deltalake import DeltaTable

from tideline.delta_io.parquet_files import read_parquet
from tideline.model.coverage import Intervals, union
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.table.active_files import active_files
from tideline.table.file_statistics import IDENTITY, Coordinates


def valueless_rows(
    table: DeltaTable, options: Mapping[str, str], wanted: Coordinates
) -> dict[PartitionIdentity, Intervals]:
    """The offsets of rows whose value is null; reads the values of the files concerned.

    Args:
        table: A raw table.
        options: delta-rs options of the object store.
        wanted: Only files that may hold rows there are read; each is read as a whole.

    Raises:
        OSError: A file cannot be read.
    """
    # Imported here: it takes a while, and no task of a run needs it.

    found: dict[PartitionIdentity, list[OffsetRange]] = defaultdict(list)
    partitioned = set(table.metadata().partition_columns)
    for file in active_files(table):
        if not wanted.may_be_in(file):
            continue
        constants = {k: v for k, v in file.constants.items() if k in partitioned}
        columns = [n for n in (*IDENTITY, "offset") if n not in constants]
        data = read_parquet(table, file.path, [*columns, "value"], options)
        for row in data.filter(data["value"].is_null()).select(columns).to_pylist():
            place = {**constants, **row}
            identity = PartitionIdentity(*(place[n] for n in IDENTITY))
            found[identity].append(OffsetRange(place["offset"], place["offset"] + 1))
    return {identity: union(offsets) for identity, offsets in found.items()}
