"""Offsets that Spark cannot read, and what is left of ranges without them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tideline.model.coverage import Coverage, by_identity, intersect, subtract
from tideline.model.offsets import CoordinateRange, OffsetRange, TopicPartition


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Offsets of one partition that Spark cannot read, and the error that comes again there."""

    range: CoordinateRange
    reason: str

    def __str__(self) -> str:
        return f"{self.range}: {self.reason}"


def readable_layers(
    ranges: Iterable[CoordinateRange], unreadable: Iterable[CoordinateRange]
) -> tuple[tuple[CoordinateRange, ...], ...]:
    """Ranges without unreadable offsets, in layers with at most one piece per partition.

    Args:
        ranges: What is wanted.
        unreadable: Offsets to leave out, as `within` gives them.
    """
    left_out: dict[TopicPartition, list[OffsetRange]] = {}
    for skipped in unreadable:
        left_out.setdefault(skipped.topic_partition, []).append(skipped.offsets)
    layers: list[list[CoordinateRange]] = []
    depths: dict[TopicPartition, int] = {}
    for wanted in ranges:
        for piece in subtract([wanted.offsets], left_out.get(wanted.topic_partition, ())):
            depth = depths.get(wanted.topic_partition, 0)
            depths[wanted.topic_partition] = depth + 1
            if depth == len(layers):
                layers.append([])
            layers[depth].append(
                replace(wanted, start_offset=piece.start_offset, end_offset=piece.end_offset)
            )
    return tuple(map(tuple, layers))


def within(
    ranges: Iterable[CoordinateRange], known: Iterable[Coverage]
) -> tuple[CoordinateRange, ...]:
    """The known offsets that lie inside the ranges, as coordinates."""
    intervals = by_identity(known)
    return tuple(
        replace(wanted.as_coordinates, start_offset=r.start_offset, end_offset=r.end_offset)
        for wanted in ranges
        for r in intersect([wanted.offsets], intervals.get(wanted.identity, ()))
    )
