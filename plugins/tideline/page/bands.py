"""A stream as the page sees it, and its coverage as a picture: which offsets became what.

The head has all of it: the history is not read, however long it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from typing import Generic, TypeVar

from tideline.ledger.state import LedgerState
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.observation import Observation
from tideline.model.offsets import (
    Intervals,
    OffsetRange,
    PartitionIdentity,
    intersect,
    subtract,
    union,
)
from tideline.model.places import Places
from tideline.model.request import RequestedRange
from tideline.model.run import RunRecord
from tideline.model.status import Band, BandKind, LogBands, PartitionStatus
from tideline.operations.stream_facts import StreamFacts
from tideline.stream.files import StreamFile
from tideline.stream.stream import Stream

Value = TypeVar("Value")
_RANGES = 20
"""At most so many ranges are offered to be landed."""


@dataclass(frozen=True, slots=True)
class Seen(Generic[Value]):
    """What is known of a service.

    Args:
        value: Its last answer; None if it has never answered.
        asked_at: When it gave that answer, UTC-aware; None if it has never answered.
        problem: Why it did not answer last time; None if it did.
        is_pending: Whether it is being asked now.
    """

    value: Value | None = None
    asked_at: datetime | None = None
    problem: str | None = None
    is_pending: bool = False


@dataclass(frozen=True, slots=True)
class StreamView:
    """A stream, and what is known of its services.

    Args:
        file: The stream, and the files that name it.
        ledger: Its ledger's state.
        brokers: The last observation of its cluster, of all topics of all streams there.
        facts: What follows from both; None where the ledger has never answered.
    """

    file: StreamFile
    ledger: Seen[LedgerState]
    brokers: Seen[Observation]
    facts: PageFacts | None

    @property
    def stream(self) -> Stream:
        """From its file."""
        return self.file.stream

    @property
    def is_pending(self) -> bool:
        """Whether one of them is being asked now."""
        return self.ledger.is_pending or self.brokers.is_pending


class PageFacts(StreamFacts):
    """A stream's facts, with what only the page shows."""

    def is_made_of(self, stream: Stream, state: LedgerState, observed: Observation | None) -> bool:
        """Whether they are made of these very objects."""
        return self.stream is stream and self.state is state and self.observed is observed

    @cached_property
    def painter(self) -> Painter:
        """Paints their bands."""
        return Painter(self.state.head, self.state.runs.values(), self.state.control.incidents)

    @cached_property
    def not_landed(self) -> tuple[RequestedRange, ...]:
        """Readable offsets below the next ones that nobody has landed, one range a partition."""
        return tuple(islice(filter(None, map(self._first_gap, self.partitions)), _RANGES))

    def _first_gap(self, status: PartitionStatus) -> RequestedRange | None:
        start = status.log_start_offset
        if start is None or status.topic is None:
            return None
        for log in self.painter.paint(status):
            for band in log.bands if log.is_current else ():
                offsets = band.offsets
                if band.kind == "gap" and offsets.end_offset > start:
                    first = max(start, offsets.start_offset)
                    place = (status.topic, status.partition)
                    return RequestedRange(*place, first, offsets.end_offset)
        return None


class Painter:
    """Paints partitions of one head, with its open runs and the open incidents of the landing."""

    def __init__(
        self,
        head: Head,
        open_runs: Collection[RunRecord],
        open_incidents: Collection[Incident],
    ) -> None:
        self._head = head
        self._generations = head.generations
        plans = (r.plan for r in open_runs if r.is_open and r.plan is not None)
        self._open = Places.of(*(plan.ranges for plan in plans))
        self._at_stake = _at_stake(head, open_incidents)

    def paint(self, status: PartitionStatus) -> tuple[LogBands, ...]:
        """The logs of a partition, the current one last, each with its bands by offset.

        Below the beginning of its generation, a log is still that of an older one, also where
        nothing of that is landed yet.
        """
        known, unread = status.identities, dict[PartitionIdentity, Intervals]()
        if (position := status.position) is not None:
            left = [OffsetRange(position.next_offset, max(position.next_offset, _end(status)))]
            for identity, piece in self._generations.pieces(position.identity):
                unread[identity] = intersect(left, [piece])
            lower = (i for i, offsets in unread.items() if offsets and i not in known)
            known = (*lower, *known)
        return tuple(self._log(identity, status, unread.get(identity, ())) for identity in known)

    def _log(
        self, identity: PartitionIdentity, status: PartitionStatus, unread: Intervals
    ) -> LogBands:
        position = status.position
        is_current = position is not None and position.identity == identity
        covered = self._head.coverage[identity]
        by_backfill = intersect(covered, self._head.backfilled[identity])
        # Where two overlap, the first counts: an accepted loss stays one, whatever covers it.
        layers: list[tuple[BandKind, Intervals]] = [
            ("accepted_loss", self._head.accepted_loss[identity]),
            ("backfilled", by_backfill),
            ("landed", covered),
            ("at_stake", self._at_stake[identity]),
            ("open", self._open[identity]),
        ]
        known = union(*(offsets for _, offsets in layers[:3]))
        layers.append(("unread", unread))
        if is_current and position is not None:
            if known and known[0].start_offset < position.next_offset:
                gap = OffsetRange(known[0].start_offset, position.next_offset)
                layers.append(("gap", (gap,)))
        elif known:
            layers.append(("gap", (OffsetRange(known[0].start_offset, known[-1].end_offset),)))
        return LogBands(identity, is_current, tuple(_painted(layers)))


def _end(status: PartitionStatus) -> int:
    return 0 if status.end_offset is None else status.end_offset


def _painted(layers: Iterable[tuple[BandKind, Intervals]]) -> Iterator[Band]:
    """Bands by offset: where layers overlap, the first one counts."""
    taken: Intervals = ()
    bands = []
    for kind, offsets in layers:
        bands += [Band(kind, r) for r in subtract(offsets, taken)]
        taken = union(taken, offsets)
    return iter(sorted(bands, key=lambda b: b.offsets))


def _at_stake(head: Head, open_incidents: Collection[Incident]) -> Places:
    """The offsets that open incidents are about, in the generation that each belongs to."""
    newest = {(p.topic_id, p.partition): p.identity for p in head.positions}
    pieces = []
    for finding in (i.finding for i in open_incidents):
        if finding.topic_id is None or finding.partition is None:
            continue
        identity = newest.get((finding.topic_id, finding.partition))
        if identity is not None:
            pieces += head.generations.split(identity, finding.intervals)
    return Places.of_pieces(pieces)


def lag_spread(lags: Iterable[int | None]) -> tuple[int, int, int, int] | None:
    """Total, largest, median and 99th percentile of the lags that are known; None without any."""
    known = sorted(lag for lag in lags if lag is not None)
    if not known:
        return None
    last = len(known) - 1
    return sum(known), known[-1], known[last // 2], known[round(last * 0.99)]
