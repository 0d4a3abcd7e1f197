"""SQL that is true for exactly the planned coordinates. Pure.

One disjunct per range is best while they are few: files are skipped by their statistics. Hundreds
of disjuncts take Spark longer to plan and to evaluate than the rows take to be written. So where
there are many ranges, neighbouring partitions of a topic share a disjunct, whose bounds still skip
files and whose arrays hold each partition's own bounds.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from itertools import groupby
from math import ceil

from tideline.model.plan import PlannedRange

_DISJUNCTS = 32
_WIDEST = 2
"""Partition numbers that a disjunct may span, per range that it may hold."""


def coordinates_predicate(ranges: Iterable[PlannedRange]) -> str:
    """True for the planned coordinates and for nothing else.

    Only a checked UUID and integers get in; a topic's name never does.

    Args:
        ranges: Of any topics, in any order; at least one.

    Raises:
        ValueError: A topic id that is no UUID.
    """
    wanted = sorted(ranges, key=lambda r: (r.topic_id, r.generation, r.partition, r.start_offset))
    most = ceil(len(wanted) / _DISJUNCTS)
    return " OR ".join(
        _one(shared[0]) if len(shared) == 1 else _several(shared)
        for _, same in groupby(wanted, key=lambda r: (r.topic_id, r.generation))
        for shared in _neighbours(same, most)
    )


def _neighbours(ranges: Iterable[PlannedRange], most: int) -> Iterator[list[PlannedRange]]:
    """Runs of ranges in the order of their partitions, not too many and not too far apart."""
    shared: list[PlannedRange] = []
    for planned in ranges:
        if shared and (
            len(shared) == most
            or planned.partition == shared[-1].partition
            or planned.partition - shared[0].partition >= _WIDEST * most
        ):
            yield shared
            shared = []
        shared.append(planned)
    if shared:
        yield shared


def _one(planned: PlannedRange) -> str:
    return (
        f"({_incarnation(planned)} AND partition = {int(planned.partition)}"
        f" AND offset >= {int(planned.start_offset)} AND offset < {int(planned.end_offset)})"
    )


def _several(shared: list[PlannedRange]) -> str:
    """`get` counts from 0 and gives NULL beyond the array's end, which the bounds exclude."""
    first, last = int(shared[0].partition), int(shared[-1].partition)
    bounds = {int(r.partition): (int(r.start_offset), int(r.end_offset)) for r in shared}
    each = [bounds.get(partition, (0, 0)) for partition in range(first, last + 1)]
    starts = ", ".join(f"{start}L" for start, _ in each)
    ends = ", ".join(f"{end}L" for _, end in each)
    return (
        f"({_incarnation(shared[0])} AND partition >= {first} AND partition <= {last}"
        f" AND offset >= {min(start for start, _ in bounds.values())}"
        f" AND offset < {max(end for _, end in bounds.values())}"
        f" AND offset >= get(array({starts}), partition - {first})"
        f" AND offset < get(array({ends}), partition - {first}))"
    )


def _incarnation(planned: PlannedRange) -> str:
    return f"topic_id = '{uuid.UUID(planned.topic_id)}' AND generation = {int(planned.generation)}"
