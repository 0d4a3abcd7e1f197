"""What a sweep asks of a table's rows: when a snapshot was, where it begins, what is below it.

Each reads a few narrow columns, a data file at a time, and raises OSError where one cannot be read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any

import pyarrow as pa

from tideline.delta_io import for_python, read_parquet
from tideline.model.current import COORDINATES, IS_DELETED, Floor
from tideline.model.offsets import PartitionIdentity, PlaceInLog
from tideline.table.opened import Opened, active_files

_LOG = ("topic_id", "generation", "partition")


def scan(table: Opened, options: Mapping[str, str], columns: Sequence[str]) -> Iterator[pa.Table]:
    """Some columns of each data file; what is not in a file is a constant of it, or null."""
    kinds = {f.name: f.type for f in pa.schema(table.schema().to_arrow())}
    for file in active_files(table):
        data = read_parquet(table, file.path, [*columns], options)
        constants = file.by_its_rows.constants
        for name in columns:
            if name not in data.column_names:
                value = pa.scalar(constants.get(name), kinds[name])
                data = data.append_column(name, pa.repeat(value, len(data)))
        yield for_python(data.select([*columns]))


def newest_marked(
    rows: Iterator[pa.Table],
    topic_id: str,
    column: str,
    texts: Collection[str],
    until: datetime | None,
) -> datetime | None:
    """The newest time of a topic id's rows with one of these texts in a column."""
    import pyarrow.compute as pc

    found = []
    for data in rows:
        is_its = pc.equal(data["topic_id"], topic_id)
        is_marked = pc.is_in(data[column], pa.array([*texts]))
        times = data["timestamp"].filter(pc.and_(is_its, is_marked))
        if until is not None:
            times = times.filter(pc.less_equal(times, pa.scalar(until, times.type)))
        found.append(pc.max(times).as_py())
    return max((time for time in found if time is not None), default=None)


def first_since(
    rows: Iterator[pa.Table], time: datetime | None, column: str | None, texts: Collection[str]
) -> dict[PartitionIdentity, int]:
    """The smallest offset of each log among rows since a time.

    Args:
        time: That time or a later one counts; with a column only later ones. None for all.
        column: Only rows with one of these texts there count; None for all.
    """
    import pyarrow.compute as pc

    found: dict[PartitionIdentity, int] = {}
    is_in = pc.greater_equal if column is None else pc.greater
    for data in rows:
        if column is not None:
            data = data.filter(pc.is_in(data[column], pa.array([*texts])))
        if time is not None:
            data = data.filter(is_in(data["timestamp"], pa.scalar(time, data["timestamp"].type)))
        for row in data.group_by(_LOG).aggregate([("offset", "min")]).to_pylist():
            place = PartitionIdentity(*(row[name] for name in _LOG))
            found[place] = min(found.get(place, row["offset_min"]), row["offset_min"])
    return found


def last_before(rows: Iterator[pa.Table], time: datetime) -> dict[PartitionIdentity, int]:
    """The largest offset of each log among rows before a time."""
    import pyarrow.compute as pc

    found: dict[PartitionIdentity, int] = {}
    for data in rows:
        data = data.filter(pc.less(data["timestamp"], pa.scalar(time, data["timestamp"].type)))
        for row in data.group_by(_LOG).aggregate([("offset", "max")]).to_pylist():
            place = PartitionIdentity(*(row[name] for name in _LOG))
            found[place] = max(found.get(place, 0), row["offset_max"])
    return found


def behind_newest(
    rows: Iterator[pa.Table], until: datetime, column: str, texts: Collection[str]
) -> tuple[PartitionIdentity, ...]:
    """Logs where one of these rows stands behind the newest of them: a clock went back.

    Args:
        until: Rows with a later time do not count.
        column: Only rows with one of these texts there count.
    """
    import pyarrow.compute as pc

    newest: dict[PartitionIdentity, tuple[datetime, int]] = {}
    last: dict[PartitionIdentity, int] = {}
    for data in rows:
        is_its = pc.is_in(data[column], pa.array([*texts]))
        limit = pa.scalar(until, data["timestamp"].type)
        data = data.filter(pc.and_(is_its, pc.less_equal(data["timestamp"], limit)))
        ends = data.group_by(_LOG).aggregate([("timestamp", "max"), ("offset", "max")])
        there = data.join(ends, [*_LOG], join_type="inner")
        tops = there.filter(pc.equal(there["timestamp"], there["timestamp_max"]))
        tops = tops.group_by(_LOG).aggregate([("timestamp", "max"), ("offset", "max")])
        for row in tops.to_pylist():
            log = PartitionIdentity(*(row[name] for name in _LOG))
            here = (row["timestamp_max"], row["offset_max"])
            newest[log] = max(newest.get(log, here), here)
        for row in ends.to_pylist():
            log = PartitionIdentity(*(row[name] for name in _LOG))
            last[log] = max(last.get(log, 0), row["offset_max"])
    return tuple(log for log in sorted(newest) if newest[log][1] < last[log])


def earliest_from(rows: Iterator[pa.Table], firsts: Sequence[PlaceInLog]) -> datetime | None:
    """The earliest time among the rows of some partitions from a place (inclusive) on.

    Args:
        firsts: At most one for each partition.
    """
    import pyarrow.compute as pc

    if not firsts:
        return None
    ids, generations, partitions, offsets = zip(*map(astuple, firsts), strict=True)
    kinds = (pa.string(), pa.int32(), pa.int32(), pa.int64())
    columns = (ids, partitions, generations, offsets)
    names = ("topic_id", "partition", "first_generation", "first_offset")
    limits = pa.table([pa.array(c, k) for c, k in zip(columns, kinds, strict=True)], [*names])
    found = []
    for data in rows:
        data = data.join(limits, [*names[:2]], join_type="inner")
        is_later = pc.greater(data["generation"], data["first_generation"])
        is_same = pc.equal(data["generation"], data["first_generation"])
        is_from = pc.greater_equal(data["offset"], data["first_offset"])
        times = data["timestamp"].filter(pc.or_(is_later, pc.and_(is_same, is_from)))
        found.append(pc.min(times).as_py())
    return min((time for time in found if time is not None), default=None)


def below(
    rows: Iterator[pa.Table], floors: Sequence[Floor], older: Sequence[str], most: int
) -> tuple[int, list[dict[str, Any]]]:
    """How many rows are there and below the floors, and the first of them."""
    import pyarrow.compute as pc

    count, first = 0, list[dict[str, Any]]()
    for data in rows:
        is_below = pc.is_in(data["topic_id"], pa.array([*older], pa.string()))
        for floor in floors:
            same = pc.equal(data["generation"], floor.generation)
            is_older = pc.less(data["generation"], floor.generation)
            before = pc.or_(is_older, pc.and_(same, pc.less(data["offset"], floor.offset)))
            in_log = pc.equal(data["topic_id"], floor.topic_id)
            here = pc.and_(in_log, pc.equal(data["partition"], floor.partition))
            is_below = pc.or_(is_below, pc.and_(here, before))
        found = data.filter(pc.and_(is_below, pc.invert(data[IS_DELETED])))
        count += len(found)
        names = [n for n in found.column_names if n not in (*COORDINATES, IS_DELETED)]
        first += found.slice(0, most - len(first)).select(names).to_pylist()
    return count, first


def has_other(rows: Iterator[pa.Table], column: str, value: int) -> bool:
    """Whether a row has another number in a column."""
    import pyarrow.compute as pc

    return any(bool(pc.any(pc.not_equal(data[column], value)).as_py()) for data in rows)
