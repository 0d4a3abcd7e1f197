"""The active data files of a table, with what its log says about them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pyarrow as pa
from deltalake import DeltaTable

from tideline.delta_io.arrow_tables import from_delta, microseconds
from tideline.table.file_statistics import IDENTITY, DataFile


def active_files(table: DeltaTable) -> Iterator[DataFile]:
    """The data files of one version, in the log's order."""
    actions = from_delta(table.get_add_actions(flatten=True))
    partition_columns = table.metadata().partition_columns
    # A producer that does not send milliseconds gives years that no datetime holds.
    times = [field.name for field in actions.schema if pa.types.is_timestamp(field.type)]
    newest: list[datetime | None] = [None] * len(actions)
    if "max.timestamp" in times:
        newest = [_instant(us) for us in microseconds(actions.column("max.timestamp"))]
    for action, latest in zip(actions.drop(times).to_pylist(), newest, strict=True):
        constants = {}
        for name in IDENTITY:
            given = action.get(f"partition.{name}")
            low, high = action.get(f"min.{name}"), action.get(f"max.{name}")
            if given is not None:
                constants[name] = given
            elif low is not None and low == high and name != "topic_id":
                constants[name] = low
        yield DataFile(
            path=action["path"],
            rows=int(action["num_records"] or 0),
            constants=constants,
            low=action.get("min.offset"),
            high=action.get("max.offset"),
            newest=latest,
            size=action["size_bytes"],
            partition={
                name: None if (value := action[f"partition.{name}"]) is None else str(value)
                for name in partition_columns
            },
        )


def _instant(since_1970: int | None) -> datetime | None:
    if since_1970 is None:
        return None
    try:
        return datetime.fromtimestamp(since_1970 / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return None
