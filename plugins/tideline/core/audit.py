"""Does the table hold what the ledger says, once and nothing else? Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tideline.core.coverage import Intervals, intersect, overlaps, subtract, union
from tideline.core.head import Head
from tideline.core.offsets import OffsetRange, PartitionIdentity
from tideline.core.result import RunRecord


@dataclass(frozen=True, slots=True)
class Stored:
    """One data file's share of a partition: its rows and the distinct offsets among them."""

    identity: PartitionIdentity
    rows: int
    offsets: Intervals


@dataclass(frozen=True, slots=True)
class Flaw:
    """Offsets `[start_offset, end_offset)` of one partition where something is wrong.

    Args:
        topic: Name where the ledger knows it.
        offsets: How many offsets; for duplicates, how many rows too many.
    """

    topic: str | None
    topic_id: str
    generation: int
    partition: int
    start_offset: int
    end_offset: int
    offsets: int


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found; clean when every list is empty.

    Args:
        gaps: Offsets below the head that no verified run covers.
        overlaps: Offsets that more than one live plan claims.
        duplicates: Coordinates with more than one row.
        missing: Verified offsets without a row, admitted gaps left out.
        foreign: Rows at coordinates that no plan covers.
        unverified: Rows of a plan that is still open; neither right nor wrong yet.
    """

    rows: int
    gaps: tuple[Flaw, ...]
    overlaps: tuple[Flaw, ...]
    duplicates: tuple[Flaw, ...]
    missing: tuple[Flaw, ...]
    foreign: tuple[Flaw, ...]
    unverified: tuple[Flaw, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        wrong = (self.gaps, self.overlaps, self.duplicates, self.missing, self.foreign)
        return not any(wrong)


class _Partition:
    """Everything known about one identity, gathered before it is judged."""

    def __init__(self) -> None:
        self.live: list[OffsetRange] = []
        self.covered: list[OffsetRange] = []
        self.excused: list[OffsetRange] = []
        self.open: list[OffsetRange] = []
        self.stored: list[Stored] = []
        self.topic: str | None = None
        self.next_offset: int | None = None


def audit(
    head: Head,
    closed: Iterable[RunRecord],
    open_runs: Iterable[RunRecord],
    stored: Iterable[Stored],
) -> Audit:
    """Hold ledger and table against each other.

    Args:
        head: The live lane's positions.
        closed: Every closed run with its verified ranges.
        open_runs: Runs whose plan is not settled.
        stored: What the table's files hold.
    """
    partitions: dict[PartitionIdentity, _Partition] = defaultdict(_Partition)
    plans_seen: set[str] = set()
    for record in closed:
        if record.plan is None or record.plan.plan_id in plans_seen:
            continue  # a run that finished another one's plan carries the same plan
        plans_seen.add(record.plan.plan_id)
        for verified in record.verified:
            place = partitions[verified.planned.identity]
            place.topic = verified.planned.topic
            place.covered.append(verified.planned.offsets)
            place.excused.extend(gap.offsets for gap in verified.gaps)
            if record.lane == "live":
                place.live.append(verified.planned.offsets)
    for record in open_runs:
        for planned in record.plan.ranges if record.plan is not None else ():
            partitions[planned.identity].topic = planned.topic
            partitions[planned.identity].open.append(planned.offsets)
    for accepted in head.excused:
        partitions[accepted.identity].excused.extend(accepted.intervals)
    for position in head.positions:
        partitions[position.identity].topic = position.topic
        partitions[position.identity].next_offset = position.next_offset
    rows = 0
    for piece in stored:
        rows += piece.rows
        partitions[piece.identity].stored.append(piece)
    return _judge(rows, partitions)


def _judge(rows: int, partitions: dict[PartitionIdentity, _Partition]) -> Audit:
    found: dict[str, list[Flaw]] = defaultdict(list)
    for identity in sorted(partitions):
        place = partitions[identity]
        present = union(r for piece in place.stored for r in piece.offsets)
        for kind, intervals in {
            "gaps": _uncovered(place),
            "overlaps": overlaps(place.live),
            "missing": subtract(subtract(place.covered, place.excused), present),
            "foreign": subtract(subtract(present, place.covered), place.open),
            "unverified": intersect(subtract(present, place.covered), place.open),
        }.items():
            found[kind] += [_flaw(identity, place, r, len(r)) for r in intervals]
        found["duplicates"] += _duplicates(identity, place)
    names = ("gaps", "overlaps", "duplicates", "missing", "foreign", "unverified")
    return Audit(rows, **{name: tuple(found[name]) for name in names})


def _uncovered(place: _Partition) -> Intervals:
    if not place.live or place.next_offset is None:
        return ()
    first = min(r.start_offset for r in place.live)
    behind = [OffsetRange(first, max(first, place.next_offset))]
    return subtract(subtract(behind, place.covered), place.excused)


def _duplicates(identity: PartitionIdentity, place: _Partition) -> list[Flaw]:
    within = [
        _flaw(identity, place, OffsetRange(p.offsets[0].start_offset, p.offsets[-1].end_offset), n)
        for p in place.stored
        if (n := p.rows - sum(len(r) for r in p.offsets))
    ]
    across = overlaps(r for piece in place.stored for r in piece.offsets)
    return within + [_flaw(identity, place, r, len(r)) for r in across]


def _flaw(identity: PartitionIdentity, place: _Partition, offsets: OffsetRange, count: int) -> Flaw:
    return Flaw(
        topic=place.topic,
        topic_id=identity.topic_id,
        generation=identity.generation,
        partition=identity.partition,
        start_offset=offsets.start_offset,
        end_offset=offsets.end_offset,
        offsets=count,
    )
