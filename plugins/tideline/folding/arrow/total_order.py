"""Where changes stand in the one total order, and which are below floors or before a truncate.

A mask says of each row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tideline.folding.arrow.keys import ranked
from tideline.folding.arrow.row_shape import TOPIC_ID
from tideline.model.current import ERA, Barrier, Floor, FoldPlan, order_names
from tideline.model.places import Places

Order = list[np.ndarray]
"""What orders rows, the first one first: whole numbers, one for each row."""
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
_BEGINNING = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // _MICROSECOND
_END = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def numbers(rows: pa.RecordBatch, name: str) -> np.ndarray:
    """A column of whole numbers without nulls."""
    return np.asarray(rows.column(name)).astype(np.int64)


def times(rows: pa.RecordBatch) -> np.ndarray:
    """Kafka's times in microseconds since 1970; a record without one is before all others."""
    column = rows.column("timestamp").cast(pa.int64())
    return np.asarray(pc.fill_null(column, _BEGINNING)).astype(np.int64)


def topics(rows: pa.RecordBatch) -> np.ndarray:
    """The numbers of topic ids in the dictionary."""
    return np.asarray(rows.column(TOPIC_ID).indices).astype(np.int64)


def eras(plan: FoldPlan, rows: pa.RecordBatch) -> np.ndarray:
    """Which incarnation of the topic each row is of; a later one counts more."""
    if len(plan.eras) == 1:
        return np.zeros(len(rows), np.int64)
    known = rows.column(TOPIC_ID).dictionary.to_pylist()
    last = np.zeros(len(known), np.int64)
    firsts: dict[tuple[int, str], dict[int, int]] = {}  # of each stay, by partition
    for topic_id, partition, generation, n in plan.incarnations.conditions:
        if partition is None:
            last[known.index(topic_id)] = n
        else:
            firsts.setdefault((n, topic_id), {})[partition] = generation
    topic, generations = topics(rows), numbers(rows, "generation")
    found: np.ndarray = last[topic]
    for (n, topic_id), here in sorted(firsts.items()):
        first = _looked_up(here, numbers(rows, "partition"))
        is_its = (topic == known.index(topic_id)) & (first >= 0) & (generations >= first)
        found[is_its] = n
    return found


def _looked_up(by_partition: dict[int, int], partitions: np.ndarray) -> np.ndarray:
    """A number of each row's partition; -1 where there is none."""
    listed = np.full(max(by_partition) + 2, -1, np.int64)
    listed[[*by_partition]] = [*by_partition.values()]
    return np.take(listed, partitions, mode="clip")


def orders(plan: FoldPlan, *parts: pa.RecordBatch) -> list[Order]:
    """The place of each row of some batches; places of all of them may be compared."""
    columns = []
    for name in order_names(plan):
        if name == ERA:
            columns.append([eras(plan, rows) for rows in parts])
        elif name == "timestamp":
            columns.append([times(rows) for rows in parts])
        elif name in ("generation", "partition", "offset"):
            columns.append([numbers(rows, name) for rows in parts])
        else:
            columns.append(ranked(*(rows.column(name) for rows in parts)))
    return [[column[n] for column in columns] for n in range(len(parts))]


def is_after(one: Order, other: Order) -> np.ndarray:
    """Whether each place of one is after its neighbour of the other."""
    found = np.zeros(len(one[0]), bool)
    for left, right in zip(reversed(one), reversed(other), strict=True):
        found = (left > right) | ((left == right) & found)
    return found


def at(order: Order, which: np.ndarray) -> Order:
    """The places of some rows."""
    return [column[which] for column in order]


def rows_below(plan: FoldPlan, floors: Sequence[Floor], rows: pa.RecordBatch) -> np.ndarray:
    """Whether each row's last change is below floors."""
    if not floors or not len(rows):
        return np.zeros(len(rows), bool)
    era = plan.incarnations.of(floors[0].identity)
    found = np.zeros(len(rows), bool) if era is None else eras(plan, rows) < era
    known = rows.column(TOPIC_ID).dictionary.to_pylist()
    topic, partitions = topics(rows), numbers(rows, "partition")
    generations, offsets = numbers(rows, "generation"), numbers(rows, "offset")
    for topic_id in sorted({floor.topic_id for floor in floors} & {*known}):
        here = {floor.partition: floor for floor in floors if floor.topic_id == topic_id}
        generation = _looked_up({n: f.generation for n, f in here.items()}, partitions)
        offset = _looked_up({n: f.offset for n, f in here.items()}, partitions)
        is_older = (generations < generation) | ((generations == generation) & (offsets < offset))
        found |= (topic == known.index(topic_id)) & is_older
    return found


def is_truncated(plan: FoldPlan, barrier: Barrier | None, rows: pa.RecordBatch) -> np.ndarray:
    """Whether each change came before the last one that said that all rows are gone."""
    if barrier is None:
        return np.zeros(len(rows), bool)
    era, found = eras(plan, rows), np.zeros(len(rows), bool)
    limits = {n: getattr(barrier, n) for n in ("generation", "partition", "offset")}
    limits["timestamp"] = micros(barrier.timestamp)
    names = order_names(plan)[1:] if plan.order == "time" else ("generation", "offset")
    for name in reversed(names):
        value = times(rows) if name == "timestamp" else numbers(rows, name)
        found = (value < limits[name]) | ((value == limits[name]) & found)
    limit = plan.incarnations.of(barrier.identity)
    if limit is None:
        return np.zeros(len(rows), bool)
    found &= era == limit
    if plan.order != "time":
        found &= numbers(rows, "partition") == barrier.partition
    return found | (era < limit)


def micros(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def last_truncate(plan: FoldPlan, rows: pa.RecordBatch) -> Barrier:
    """The last of these changes, all of which say that all rows are gone.

    A time that Python cannot hold becomes the nearest one that it can.
    """
    (order,) = orders(plan, rows)
    n = int(np.lexsort(order[::-1])[-1])
    row = {
        name: rows.column(name)[n].as_py()
        for name in (TOPIC_ID, "generation", "partition", "offset")
    }
    time = min(max(int(times(rows)[n]), _BEGINNING), _END)
    return Barrier(**row, timestamp=_EPOCH + time * _MICROSECOND)


class Wanted:
    """Coordinates whose rows are read.

    Args:
        places: In as many logs as wanted.
    """

    def __init__(self, places: Places) -> None:
        self._of = {
            (log.topic_id, log.generation, log.partition): (
                np.array([r.start_offset for r in ranges], np.int64),
                np.array([r.end_offset for r in ranges], np.int64),
            )
            for log, ranges in places.items()
        }

    def mask(self, rows: pa.RecordBatch) -> np.ndarray:
        """Which rows are at these coordinates."""
        found = np.zeros(len(rows), bool)
        if not len(rows):
            return found
        known = rows.column(TOPIC_ID).dictionary.to_pylist()
        log = [topics(rows), numbers(rows, "generation"), numbers(rows, "partition")]
        offsets = numbers(rows, "offset")
        if all((column == column[0]).all() for column in log):
            groups = [np.arange(len(rows))]
        else:
            order = np.lexsort(log)
            edges = np.zeros(len(rows) - 1, bool)
            for column in log:
                edges |= np.diff(column[order]) != 0
            groups = np.split(order, np.flatnonzero(edges) + 1)
        for group in groups:
            n = int(group[0])
            bounds = self._of.get((known[log[0][n]], int(log[1][n]), int(log[2][n])))
            if bounds is None:
                continue
            starts, ends = bounds
            place = np.searchsorted(starts, offsets[group], "right") - 1
            found[group] = (place >= 0) & (offsets[group] < ends[place])
        return found
