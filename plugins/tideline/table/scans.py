"""What is asked of a table's rows by a few narrow columns, a data file at a time.

Each function raises ServiceAway where the store is away, as every method of a table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import astuple
from datetime import datetime
from typing import Any

import pyarrow as pa

from tideline.model.current import COORDINATES, IS_DELETED, Floor
from tideline.model.offsets import (
    CoordinateRange,
    PartitionIdentity,
    PlaceInLog,
)
from tideline.model.places import Places
from tideline.table.arrays import IDENTITY, places_in, topics_in
from tideline.table.table_port import TablePort

_PLACE = (*IDENTITY, "offset")


def rows_at(
    table: TablePort, ranges: Iterable[CoordinateRange] | None, columns: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """The rows of the newest version at coordinates.

    Args:
        ranges: None for all rows.
        columns: What is given of each row, beside its coordinates.
    """
    for data in table.scan([*dict.fromkeys((*_PLACE, *columns))], ranges):
        yield from data.to_pylist()


def valueless(table: TablePort, ranges: Iterable[CoordinateRange], version: int) -> Places:
    """Where raw rows have no value; reads the values of the files concerned."""
    rows = table.scan((*_PLACE, "value"), ranges, version)
    return places_in(data.filter(data["value"].is_null()) for data in rows)


def since(
    table: TablePort, ranges: Iterable[CoordinateRange], version: int, time: datetime
) -> Places:
    """Where raw rows have Kafka's time from one on (inclusive), or none."""
    rows = table.scan((*_PLACE, "timestamp"), ranges, version)
    return places_in(_not_before(data, time) for data in rows)


def quarantined(
    table: TablePort, classes: Collection[str], since: datetime | None
) -> tuple[CoordinateRange, ...]:
    """Where the records are that a quarantine holds; reads neither keys nor values.

    Args:
        classes: Only these error classes; all if empty.
        since: Only records with Kafka's time from this one on (inclusive), and those without one;
            None for all.

    Returns:
        Disjoint ranges without other offsets in between.
    """
    import pyarrow.compute as pc

    names: dict[str, str] = {}
    chosen = []
    for data in table.scan((*_PLACE, "topic", "timestamp", "error_class")):
        if classes:
            data = data.filter(pc.is_in(data["error_class"], pa.array([*classes])))
        if since is not None:
            data = _not_before(data, since)
        names |= topics_in(data)
        chosen.append(data.select(_PLACE))
    found = places_in(chosen).ranges(names)
    return tuple(sorted(found, key=lambda r: (r.topic, r.identity, r.start_offset)))


def _not_before(data: pa.Table, time: datetime) -> pa.Table:
    """The rows with a time from one on (inclusive), or without one."""
    import pyarrow.compute as pc

    is_later = pc.greater_equal(data["timestamp"], pa.scalar(time, data["timestamp"].type))
    return data.filter(pc.fill_null(is_later, True))


def newest_marked(
    table: TablePort,
    topic_id: str,
    column: str,
    texts: Collection[str],
    until: datetime | None,
) -> datetime | None:
    """The newest Kafka's time of a topic id's rows with one of these texts in a column.

    Args:
        until: Only times up to this one (inclusive); None for all.

    Returns:
        UTC-aware; None if there is no such row.
    """
    import pyarrow.compute as pc

    found = []
    for data in table.scan(["topic_id", "timestamp", column]):
        is_its = pc.equal(data["topic_id"], topic_id)
        is_marked = pc.is_in(data[column], pa.array([*texts]))
        times = data["timestamp"].filter(pc.and_(is_its, is_marked))
        if until is not None:
            times = times.filter(pc.less_equal(times, pa.scalar(until, times.type)))
        found.append(pc.max(times).as_py())
    return max((time for time in found if time is not None), default=None)


def first_since(
    table: TablePort,
    time: datetime | None,
    column: str | None = None,
    texts: Collection[str] = (),
) -> dict[PartitionIdentity, int]:
    """The smallest offset of each log among rows since a Kafka's time.

    Args:
        time: That time or a later one counts; with a column only later ones. None for all.
        column: Only rows with one of these texts there count; None for all.
    """
    import pyarrow.compute as pc

    found: dict[PartitionIdentity, int] = {}
    is_in = pc.greater_equal if column is None else pc.greater
    for data in table.scan([*COORDINATES, *([] if column is None else [column])]):
        if column is not None:
            data = data.filter(pc.is_in(data[column], pa.array([*texts])))
        if time is not None:
            data = data.filter(is_in(data["timestamp"], pa.scalar(time, data["timestamp"].type)))
        for row in data.group_by(IDENTITY).aggregate([("offset", "min")]).to_pylist():
            place = PartitionIdentity(*(row[name] for name in IDENTITY))
            found[place] = min(found.get(place, row["offset_min"]), row["offset_min"])
    return found


def last_before(table: TablePort, time: datetime) -> dict[PartitionIdentity, int]:
    """The largest offset of each log among rows before a Kafka's time (UTC-aware, exclusive)."""
    import pyarrow.compute as pc

    found: dict[PartitionIdentity, int] = {}
    for data in table.scan(COORDINATES):
        data = data.filter(pc.less(data["timestamp"], pa.scalar(time, data["timestamp"].type)))
        for row in data.group_by(IDENTITY).aggregate([("offset", "max")]).to_pylist():
            place = PartitionIdentity(*(row[name] for name in IDENTITY))
            found[place] = max(found.get(place, 0), row["offset_max"])
    return found


def behind_newest(
    table: TablePort, until: datetime, column: str, texts: Collection[str]
) -> tuple[PartitionIdentity, ...]:
    """Logs where one of these rows stands behind the newest of them: a clock went back.

    Args:
        until: Rows with a later time do not count.
        column: Only rows with one of these texts there count.
    """
    import pyarrow.compute as pc

    newest: dict[PartitionIdentity, tuple[datetime, int]] = {}
    last: dict[PartitionIdentity, int] = {}
    for data in table.scan([*COORDINATES, column]):
        is_its = pc.is_in(data[column], pa.array([*texts]))
        limit = pa.scalar(until, data["timestamp"].type)
        data = data.filter(pc.and_(is_its, pc.less_equal(data["timestamp"], limit)))
        ends = data.group_by(IDENTITY).aggregate([("timestamp", "max"), ("offset", "max")])
        there = data.join(ends, [*IDENTITY], join_type="inner")
        tops = there.filter(pc.equal(there["timestamp"], there["timestamp_max"]))
        tops = tops.group_by(IDENTITY).aggregate([("timestamp", "max"), ("offset", "max")])
        for row in tops.to_pylist():
            log = PartitionIdentity(*(row[name] for name in IDENTITY))
            here = (row["timestamp_max"], row["offset_max"])
            newest[log] = max(newest.get(log, here), here)
        for row in ends.to_pylist():
            log = PartitionIdentity(*(row[name] for name in IDENTITY))
            last[log] = max(last.get(log, 0), row["offset_max"])
    return tuple(log for log in sorted(newest) if newest[log][1] < last[log])


def earliest_from(table: TablePort, firsts: Sequence[PlaceInLog]) -> datetime | None:
    """The earliest Kafka's time among the rows of some partitions from a place (inclusive) on.

    Args:
        firsts: At most one for each partition.

    Returns:
        UTC-aware; None if there is no such row.
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
    for data in table.scan(COORDINATES):
        data = data.join(limits, [*names[:2]], join_type="inner")
        is_later = pc.greater(data["generation"], data["first_generation"])
        is_same = pc.equal(data["generation"], data["first_generation"])
        is_from = pc.greater_equal(data["offset"], data["first_offset"])
        times = data["timestamp"].filter(pc.or_(is_later, pc.and_(is_same, is_from)))
        found.append(pc.min(times).as_py())
    return min((time for time in found if time is not None), default=None)


def below(
    table: TablePort, floors: Sequence[Floor], older: Sequence[str], key: Sequence[str], most: int
) -> tuple[int, list[dict[str, Any]]]:
    """Rows of a current table that are there, and whose last change is below the floors.

    Args:
        older: Topic ids all of whose rows are below.
        key: The key's columns.
        most: How many keys are returned.

    Returns:
        How many there are, and the keys of the first.
    """
    import pyarrow.compute as pc

    count, first = 0, list[dict[str, Any]]()
    for data in table.scan([*key, *COORDINATES, IS_DELETED]):
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
        first += found.slice(0, most - len(first)).select(key).to_pylist()
    return count, first


def has_other(table: TablePort, column: str, value: int) -> bool:
    """Whether a row has another number in a column than that one."""
    import pyarrow.compute as pc

    rows = table.scan([column])
    return any(bool(pc.any(pc.not_equal(data[column], value)).as_py()) for data in rows)
