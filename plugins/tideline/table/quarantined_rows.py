"""Which records are in quarantine: coordinates by error class and time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime

from deltalake import DeltaTable

from tideline.delta_io.parquet_files import read_parquet
from tideline.model.coverage import union
from tideline.model.offsets import CoordinateRange, OffsetRange
from tideline.table.active_files import active_files

_COLUMNS = ("topic", "topic_id", "generation", "partition", "offset", "timestamp", "error_class")


def quarantined_rows(
    table: DeltaTable,
    options: Mapping[str, str],
    classes: Collection[str],
    since: datetime | None,
) -> tuple[CoordinateRange, ...]:
    """The coordinates of quarantined records; reads neither keys nor values.

    Args:
        table: The quarantine.
        options: delta-rs options of the object store.
        classes: Only these error classes; all if empty.
        since: Only records with Kafka's time from this one on (inclusive); None for all.

    Raises:
        OSError: A file cannot be read.
    """
    found: dict[tuple[str, str, int, int], list[OffsetRange]] = defaultdict(list)
    for file in active_files(table):
        data = read_parquet(table, file.path, _COLUMNS, options)
        for row in data.to_pylist():
            wanted = not classes or row["error_class"] in classes
            if wanted and (since is None or row["timestamp"] >= since):
                place = (row["topic"], row["topic_id"], row["generation"], row["partition"])
                found[place].append(OffsetRange(row["offset"], row["offset"] + 1))
    return tuple(
        CoordinateRange(*place, r.start_offset, r.end_offset)
        for place in sorted(found)
        for r in union(found[place])
    )
