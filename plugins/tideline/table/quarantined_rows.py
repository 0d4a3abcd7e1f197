"""Which records are in quarantine: coordinates by error class and time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import datetime

from deltalake import DeltaTable

from tideline.delta_io.parquet_files import read_parquet
from tideline.model.coverage import union
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity
from tideline.model.retention import PlannedRows
from tideline.table.active_files import active_files

_COLUMNS = ("topic", "topic_id", "generation", "partition", "offset", "timestamp", "error_class")
_PLANNED = ("topic", "topic_id", "generation", "partition", "offset", "decode_plan_id")
_Places = dict[PartitionIdentity, list[OffsetRange]]


def rows_of_plans(
    table: DeltaTable, options: Mapping[str, str], plans: Collection[str]
) -> PlannedRows:
    """Where the rows of some plans are, and where all others; reads neither keys nor values.

    Args:
        table: The quarantine.
        options: delta-rs options of the object store.
        plans: Their ids.

    Raises:
        OSError: A file cannot be read.
    """
    places: tuple[_Places, _Places] = (defaultdict(list), defaultdict(list))
    topics: dict[str, str] = {}
    size = 0
    for file in active_files(table):
        chosen = 0
        data = read_parquet(table, file.path, _PLANNED, options)
        for row in data.to_pylist():
            is_chosen = row["decode_plan_id"] in plans
            log = PartitionIdentity(row["topic_id"], row["generation"], row["partition"])
            places[is_chosen][log].append(OffsetRange(row["offset"], row["offset"] + 1))
            topics[row["topic_id"]] = row["topic"]
            chosen += is_chosen
        size += (file.size or 0) * chosen // max(1, len(data))
    others, found = ({i: union(r) for i, r in logs.items()} for logs in places)
    return PlannedRows(found, others, topics, size)


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
