"""A stream's coverage as a picture: what became of which offsets, partition by partition. Pure.

The head has all of it: the history is not read, however long it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from tideline.model.head import Head, Headroom, PartitionPosition
from tideline.model.incident import Incident
from tideline.model.observation import Observation, PartitionObservation
from tideline.model.offsets import (
    Intervals,
    OffsetRange,
    PartitionIdentity,
    add_coverage,
    by_identity,
    intersect,
    subtract,
    union,
)
from tideline.model.run import RunRecord
from tideline.model.status import Band, BandKind, LogBands, Standing

Place = tuple[str | None, int]
"""Topic name, None where the ledger no longer knows it, and partition."""


def standings(
    head: Head, observation: Observation | None, isolation_level: str
) -> tuple[Standing, ...]:
    """All partitions that the head knows, by topic and number; those without a name come last.

    Args:
        head: Where the live lane stands, and what is covered.
        observation: What the brokers said last; None if they have never answered.
        isolation_level: `read_committed` or `read_uncommitted`: where the stream's logs end.
    """
    names = {p.topic_id: p.topic for p in (*head.retired, *head.positions)}
    only = next(iter(head.topics)) if len(head.topics) == 1 else None
    logs: dict[Place, set[PartitionIdentity]] = {}
    known = [c.identity for c in (*head.coverage, *head.accepted_loss) if c.intervals]
    for identity in (*known, *(p.identity for p in head.positions)):
        place = (names.get(identity.topic_id, only), identity.partition)
        logs.setdefault(place, set()).add(identity)
    positions: dict[Place, PartitionPosition] = {(p.topic, p.partition): p for p in head.positions}
    headroom: dict[Place, Headroom] = {(h.topic, h.partition): h for h in head.headroom}
    found = []
    for place in sorted(logs, key=lambda p: (p[0] is None, p[0] or "", p[1])):
        position = positions.get(place)
        seen = _observed(position, observation)
        end = seen.end_offset(isolation_level) if seen is not None else None
        is_observed = end is not None
        if end is None and position is not None:
            end = position.seen_end
        current = position.identity if position is not None else None
        order = sorted(logs[place], key=lambda i: (i == current, i))
        start = seen.log_start_offset if seen is not None else None
        left = headroom.get(place)
        standing = Standing(*place, position, start, end, left, is_observed, tuple(order))
        found.append(standing)
    return tuple(found)


def _observed(
    position: PartitionPosition | None, observation: Observation | None
) -> PartitionObservation | None:
    """What the brokers said of the log that a position belongs to."""
    if position is None or observation is None:
        return None
    topic = observation.topic(position.topic)
    if topic is None or topic.topic_id != position.topic_id:
        return None  # another topic by now: its offsets mean something else
    return topic.partition(position.partition)


class Painter:
    """Paints partitions of one head.

    Args:
        head: Where the live lane stands, and what is covered.
        open_runs: Records that are not closed yet.
        open_incidents: Of the landing.
    """

    def __init__(
        self,
        head: Head,
        open_runs: Collection[RunRecord],
        open_incidents: Collection[Incident],
    ) -> None:
        self._covered = head.covered
        self._backfilled = by_identity(head.backfilled)
        self._lost = by_identity(head.accepted_loss)
        self._open = _planned(open_runs)
        self._at_stake = _at_stake(head, open_incidents)

    def paint(self, standing: Standing) -> tuple[LogBands, ...]:
        """The logs of a partition, the current one last, each with its bands by offset."""
        return tuple(self._log(identity, standing) for identity in standing.identities)

    def _log(self, identity: PartitionIdentity, standing: Standing) -> LogBands:
        position, end = standing.position, standing.end_offset
        is_current = position is not None and position.identity == identity
        covered = self._covered.get(identity, ())
        by_backfill = intersect(covered, self._backfilled.get(identity, ()))
        layers: list[tuple[BandKind, Intervals]] = [
            ("accepted_loss", self._lost.get(identity, ())),
            ("backfilled", by_backfill),
            ("landed", covered),
            ("at_stake", self._at_stake.get(identity, ())),
            ("open", self._open.get(identity, ())),
        ]
        known = union(*(offsets for _, offsets in layers[:3]))
        if is_current and position is not None:
            if end is not None and end > position.next_offset:
                layers.append(("unread", (OffsetRange(position.next_offset, end),)))
            if known and known[0].start_offset < position.next_offset:
                gap = OffsetRange(known[0].start_offset, position.next_offset)
                layers.append(("gap", (gap,)))
        elif known:
            layers.append(("gap", (OffsetRange(known[0].start_offset, known[-1].end_offset),)))
        return LogBands(identity, is_current, tuple(_painted(layers)))


def _painted(layers: Iterable[tuple[BandKind, Intervals]]) -> Iterator[Band]:
    """Bands by offset: where layers overlap, the first one counts."""
    taken: Intervals = ()
    bands = []
    for kind, offsets in layers:
        bands += [Band(kind, r) for r in subtract(offsets, taken)]
        taken = union(taken, offsets)
    return iter(sorted(bands, key=lambda b: b.offsets))


def _planned(open_runs: Collection[RunRecord]) -> Mapping[PartitionIdentity, Intervals]:
    return by_identity(
        add_coverage(
            (),
            (
                (r.identity, r.offsets)
                for record in open_runs
                if record.is_open and record.plan is not None
                for r in record.plan.ranges
            ),
        )
    )


def _at_stake(
    head: Head, open_incidents: Collection[Incident]
) -> Mapping[PartitionIdentity, Intervals]:
    """The offsets that open incidents are about, in the generation that each belongs to."""
    newest = {(p.topic_id, p.partition): p.identity for p in head.positions}
    pieces = []
    for finding in (i.finding for i in open_incidents):
        if finding.topic_id is None or finding.partition is None:
            continue
        identity = newest.get((finding.topic_id, finding.partition))
        if identity is not None:
            pieces += head.generations.split(identity, finding.intervals)
    return by_identity(add_coverage((), pieces))


def lag_spread(lags: Iterable[int | None]) -> tuple[int, int, int, int] | None:
    """Total, largest, median and 99th percentile of the lags that are known; None without any."""
    known = sorted(lag for lag in lags if lag is not None)
    if not known:
        return None
    last = len(known) - 1
    return sum(known), known[-1], known[last // 2], known[round(last * 0.99)]
