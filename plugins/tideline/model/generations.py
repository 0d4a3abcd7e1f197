"""Where the generations of a partition begin, and of which of them its log consists. Pure.

A generation begins at an offset. Below it the log is what it was, so that an older generation is
meant there: the one with the highest number among those that begin at or below an offset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tideline.model.coverage import Coverage, Intervals, by_identity, intersect, union
from tideline.model.offsets import OffsetRange, PartitionIdentity

_NO_END = 2**63 - 1
"""Above every offset of Kafka."""

Piece = tuple[PartitionIdentity, OffsetRange]


@dataclass(frozen=True, slots=True)
class Beginning:
    """The first offset of a generation.

    Args:
        identity: The generation of one partition; generation 0 begins at 0 and has no entry.
        offset: Its first offset (inclusive): where the log was cut, or the log start where all of
            it is read again.
    """

    identity: PartitionIdentity
    offset: int


@dataclass(frozen=True, slots=True)
class Generations:
    """The generations that a head knows.

    Args:
        begun: First offsets. A generation without an entry begins at 0: a ledger of an earlier
            version does not know where it did, and all offsets count as its own.
    """

    begun: Mapping[PartitionIdentity, int]

    def pieces(self, newest: PartitionIdentity) -> tuple[Piece, ...]:
        """The parts of a log, lowest first; each generation has at most one, and none is empty.

        Args:
            newest: Topic id, partition, and the generation of what is written now.
        """
        found: list[Piece] = []
        end = _NO_END
        for generation in range(newest.generation, -1, -1):
            identity = replace(newest, generation=generation)
            start = self.begun.get(identity, 0)
            if start < end:
                found.append((identity, OffsetRange(start, end)))
                end = start
        return tuple(reversed(found))

    def split(self, newest: PartitionIdentity, offsets: Iterable[OffsetRange]) -> list[Piece]:
        """Offsets of a log by the generation that they belong to, lowest first."""
        wanted = union(offsets)
        if not newest.generation:
            return [(newest, r) for r in wanted]
        return [
            (identity, r)
            for identity, piece in self.pieces(newest)
            for r in intersect(wanted, [piece])
        ]

    def joined(
        self, logs: Iterable[PartitionIdentity], known: Iterable[Coverage]
    ) -> dict[PartitionIdentity, Intervals]:
        """The offsets of `known` that are still in today's logs, whatever their generation.

        Args:
            logs: By topic id, partition and newest generation.
            known: Offsets by generation.
        """
        own = by_identity(known)
        found = {}
        for newest in logs:
            offsets = own.get(newest, ())
            if newest.generation:
                parts = self.pieces(newest)
                offsets = union(*(intersect(own.get(i, ()), [piece]) for i, piece in parts))
            if offsets:
                found[newest] = offsets
        return found
