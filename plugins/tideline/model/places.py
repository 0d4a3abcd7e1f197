"""Sets of coordinates: which offsets of which logs, with the algebra of sets.

held | more     the offsets of either          held[log]      a log's; none: ()
held - gone     those of the first alone       held.cut(r)    the parts of ranges that are in it
held & other    those of both                  held.rest(r)   the parts that are not
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from pydantic import GetCoreSchemaHandler
from pydantic_core import core_schema

from tideline.model.offsets import (
    CoordinateRange,
    Intervals,
    OffsetRange,
    PartitionIdentity,
    Piece,
    intersect,
    subtract,
    total,
    union,
)

Range = TypeVar("Range", bound=CoordinateRange)


@dataclass(frozen=True, slots=True)
class Coverage:
    """Offsets of one log, as documents and answers have them.

    Args:
        identity: The log that the offsets belong to.
        intervals: Normalized ranges.
    """

    identity: PartitionIdentity
    intervals: Intervals = field(default_factory=tuple)


class Places(Mapping[PartitionIdentity, Intervals]):
    """Offsets by log, in the order of the logs. Never changes.

    A log without offsets is not in it, and still may be asked for. A document has it as a list of
    `Coverage`.

    Args:
        by_log: Normalized intervals, as of `union`; `of` and `of_pieces` take any.
    """

    __slots__ = ("_by_log",)
    ENTRY: ClassVar[type[Coverage]] = Coverage

    def __init__(self, by_log: Mapping[PartitionIdentity, Intervals] = {}) -> None:
        self._by_log = {log: by_log[log] for log in sorted(by_log) if by_log[log]}

    @classmethod
    def of(cls, *groups: Iterable[CoordinateRange]) -> Places:
        """All offsets of some ranges."""
        return cls.of_pieces((r.identity, r.offsets) for ranges in groups for r in ranges)

    @classmethod
    def of_pieces(cls, pieces: Iterable[Piece]) -> Places:
        """Offsets of logs in any order; they may overlap."""
        found: dict[PartitionIdentity, list[OffsetRange]] = {}
        for log, offsets in pieces:
            found.setdefault(log, []).append(offsets)
        return cls({log: union(offsets) for log, offsets in found.items()})

    def __getitem__(self, log: PartitionIdentity) -> Intervals:
        return self._by_log.get(log, ())

    def __contains__(self, log: object) -> bool:
        return log in self._by_log

    def __iter__(self) -> Iterator[PartitionIdentity]:
        return iter(self._by_log)

    def __len__(self) -> int:
        return len(self._by_log)

    def __hash__(self) -> int:
        return hash(tuple(self._by_log.items()))

    def __repr__(self) -> str:
        return f"Places({self._by_log})"

    def __or__(self, other: Mapping[PartitionIdentity, Intervals]) -> Places:
        if not other:
            return self
        more = {log: union(self[log], offsets) for log, offsets in other.items()}
        return Places({**self._by_log, **more})

    def __sub__(self, other: Mapping[PartitionIdentity, Intervals]) -> Places:
        gone = {log: subtract(self[log], r) for log, r in other.items() if log in self}
        return Places({**self._by_log, **gone}) if gone else self

    def __and__(self, other: Mapping[PartitionIdentity, Intervals]) -> Places:
        return Places({log: intersect(self[log], r) for log, r in other.items() if log in self})

    @property
    def offsets(self) -> int:
        """How many offsets they are."""
        return sum(map(total, self._by_log.values()))

    @property
    def pieces(self) -> Iterator[Piece]:
        """Each interval with its log, in order."""
        return ((log, r) for log, intervals in self._by_log.items() for r in intervals)

    @property
    def entries(self) -> tuple[Coverage, ...]:
        """As documents have it."""
        return tuple(Coverage(log, intervals) for log, intervals in self._by_log.items())

    def cut(self, ranges: Iterable[Range]) -> tuple[Range, ...]:
        """The parts of ranges that are in it."""
        return tuple(r.at(p) for r in ranges for p in intersect([r.offsets], self[r.identity]))

    def rest(self, ranges: Iterable[Range]) -> tuple[Range, ...]:
        """The parts of ranges that are not in it."""
        return tuple(r.at(p) for r in ranges for p in subtract([r.offsets], self[r.identity]))

    def ranges(self, names: Mapping[str, str] = {}) -> tuple[CoordinateRange, ...]:
        """As ranges.

        Args:
            names: Topic names by topic id. One that is not known any more is named by its id: only
                that counts.
        """
        return tuple(
            CoordinateRange(
                names.get(log.topic_id, log.topic_id),
                *(log.topic_id, log.generation, log.partition, r.start_offset, r.end_offset),
            )
            for log, r in self.pieces
        )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: Any, handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        entries = handler.generate_schema(tuple[Coverage, ...])
        return core_schema.no_info_wrap_validator_function(
            lambda given, check: given if isinstance(given, cls) else _of_entries(check(given)),
            entries,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda places: places.entries, return_schema=entries
            ),
        )


def _of_entries(entries: tuple[Coverage, ...]) -> Places:
    found = {entry.identity: entry.intervals for entry in entries}
    if len(found) < len(entries):
        raise ValueError("two entries of coverage have one identity")
    return Places(found)


NOWHERE = Places()
