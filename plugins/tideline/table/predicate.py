"""SQL that is true for exactly the given coordinates. Pure.

With few ranges, each has a disjunct of its own: Delta then skips files by their statistics. With
hundreds of disjuncts, Spark needs longer to plan and evaluate them than to write the rows. So with
many ranges, neighbouring partitions of a topic share a disjunct. Its outer bounds still skip files;
its arrays hold the bounds of each partition.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from itertools import groupby
from math import ceil

from tideline.model.offsets import CoordinateRange

_DISJUNCTS = 32
_WIDEST = 2
"""How many partition numbers a disjunct may span, per range that it may hold."""


def coordinates_predicate(ranges: Iterable[CoordinateRange]) -> str:
    """A SQL condition that is true for these coordinates and for no others.

    It contains checked UUIDs and integers only, and never a topic's name.

    Args:
        ranges: Of any topics, in any order; at least one.

    Raises:
        ValueError: A topic id is no UUID.
    """
    wanted = sorted(ranges, key=lambda r: r.coordinates)
    most = ceil(len(wanted) / _DISJUNCTS)
    return " OR ".join(
        _one(shared[0]) if len(shared) == 1 else _several(shared)
        for _, same in groupby(wanted, key=lambda r: (r.topic_id, r.generation))
        for shared in _neighbours(same, most)
    )


def _neighbours(ranges: Iterable[CoordinateRange], most: int) -> Iterator[list[CoordinateRange]]:
    """Groups of ranges in the order of their partitions: few in number, and close together."""
    shared: list[CoordinateRange] = []
    for item in ranges:
        if shared and (
            len(shared) == most
            or item.partition == shared[-1].partition
            or item.partition - shared[0].partition >= _WIDEST * most
        ):
            yield shared
            shared = []
        shared.append(item)
    if shared:
        yield shared


def _one(item: CoordinateRange) -> str:
    return (
        f"({_incarnation(item)} AND partition = {int(item.partition)}"
        f" AND offset >= {int(item.start_offset)} AND offset < {int(item.end_offset)})"
    )


def _several(shared: list[CoordinateRange]) -> str:
    """Spark's `get` counts from 0. Past the array's end it gives NULL; the bounds exclude that."""
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


def _incarnation(item: CoordinateRange) -> str:
    return f"topic_id = '{uuid.UUID(item.topic_id)}' AND generation = {int(item.generation)}"
