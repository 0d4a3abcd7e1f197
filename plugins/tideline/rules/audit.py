"""Does the table hold what the ledger says, once and nothing else? Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tideline.model.coverage import Intervals, intersect, overlaps, subtract, union
from tideline.model.head import Head
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.run import RunRecord


@dataclass(frozen=True, slots=True)
class Stored:
    """One data file's share of a partition.

    Args:
        rows: Rows, copies counted.
        offsets: The distinct offsets among them.
        copies: Offsets that stand more than once, with how many rows there are too many.
    """

    identity: PartitionIdentity
    rows: int
    offsets: Intervals
    copies: tuple[tuple[OffsetRange, int], ...] = ()


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

    def __str__(self) -> str:
        again = f" of generation {self.generation}" if self.generation else ""
        place = f"{self.topic or self.topic_id}-{self.partition}"
        return f"{place} [{self.start_offset}, {self.end_offset}){again}"


@dataclass(frozen=True, slots=True)
class Audit:
    """What an audit found; clean when every list is empty.

    Args:
        gaps: Holes in the ledger: offsets below the head that no verified run covers, and those
            that either the head's coverage or the closed runs have, but not both.
        overlaps: Offsets that more than one live plan claims; a backfill may read again what is
            landed.
        duplicates: Coordinates with more than one row.
        missing: Verified offsets without a row, admitted gaps left out.
        foreign: Rows at coordinates that no plan covers.
        unverified: Rows of a plan that is still open; neither right nor wrong yet.
        table_version: What was looked at; None without a table.
    """

    rows: int
    gaps: tuple[Flaw, ...]
    overlaps: tuple[Flaw, ...]
    duplicates: tuple[Flaw, ...]
    missing: tuple[Flaw, ...]
    foreign: tuple[Flaw, ...]
    unverified: tuple[Flaw, ...]
    table_version: int | None = None

    @property
    def clean(self) -> bool:
        """Whether nothing is wrong."""
        wrong = (self.gaps, self.overlaps, self.duplicates, self.missing, self.foreign)
        return not any(wrong)

    def __str__(self) -> str:
        kinds = ("gaps", "overlaps", "duplicates", "missing", "foreign")
        found = {kind: getattr(self, kind) for kind in kinds}
        return "; ".join(f"{k}: {_shown(flaws)}" for k, flaws in found.items() if flaws)


def _shown(flaws: tuple[Flaw, ...]) -> str:
    more = f" and {len(flaws) - 5} more" if len(flaws) > 5 else ""
    return f"{', '.join(map(str, flaws[:5]))}{more}"


class _Partition:
    """Everything known about one identity, gathered before it is judged."""

    def __init__(self) -> None:
        self.live: list[OffsetRange] = []
        self.verified: list[OffsetRange] = []
        self.accounted: list[OffsetRange] = []
        self.accepted_loss: list[OffsetRange] = []
        self.open: list[OffsetRange] = []
        self.stored: list[Stored] = []
        self.topic: str | None = None
        self.next_offset: int | None = None

    @property
    def covered(self) -> Intervals:
        """What the head's coverage or a closed run has: a hole in one makes no row foreign."""
        return union(self.verified, self.accounted)


def audit(
    head: Head,
    closed: Iterable[RunRecord],
    open_runs: Iterable[RunRecord],
    stored: Iterable[Stored],
) -> Audit:
    """Hold ledger and table against each other.

    Args:
        head: The live lane's positions, and the coverage of all lanes.
        closed: Every closed run with its verified ranges; an undone one has none.
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
            place.verified.append(verified.planned.offsets)
            place.accepted_loss.extend(gap.offsets for gap in verified.gaps)
            if record.lane == "live":
                place.live.append(verified.planned.offsets)
    for record in open_runs:
        for planned in record.plan.ranges if record.plan is not None else ():
            partitions[planned.identity].topic = planned.topic
            partitions[planned.identity].open.append(planned.offsets)
    _take_head(partitions, head)
    rows = 0
    for piece in stored:
        rows += piece.rows
        partitions[piece.identity].stored.append(piece)
    names = {p.topic_id: p.topic for p in (*head.retired, *head.positions)}
    for identity, place in partitions.items():
        place.topic = place.topic or names.get(identity.topic_id)
    return _judge(rows, partitions)


def _take_head(partitions: dict[PartitionIdentity, _Partition], head: Head) -> None:
    for account in head.coverage:
        partitions[account.identity].accounted.extend(account.intervals)
    for accepted in head.accepted_loss:
        partitions[accepted.identity].accepted_loss.extend(accepted.intervals)
    for position in head.positions:
        partitions[position.identity].next_offset = position.next_offset


def _judge(rows: int, partitions: dict[PartitionIdentity, _Partition]) -> Audit:
    found: dict[str, list[Flaw]] = defaultdict(list)
    for identity in sorted(partitions):
        place = partitions[identity]
        present = union(r for piece in place.stored for r in piece.offsets)
        for kind, intervals in {
            "gaps": _uncovered(place),
            "overlaps": overlaps(place.live),
            "missing": subtract(subtract(place.covered, place.accepted_loss), present),
            "foreign": subtract(subtract(present, place.covered), place.open),
            "unverified": intersect(subtract(present, place.covered), place.open),
        }.items():
            found[kind] += [_flaw(identity, place, r, len(r)) for r in intervals]
        found["duplicates"] += _duplicates(identity, place)
    return Audit(
        rows,
        gaps=tuple(found["gaps"]),
        overlaps=tuple(found["overlaps"]),
        duplicates=tuple(found["duplicates"]),
        missing=tuple(found["missing"]),
        foreign=tuple(found["foreign"]),
        unverified=tuple(found["unverified"]),
    )


def _uncovered(place: _Partition) -> Intervals:
    disagreed = union(
        subtract(place.accounted, place.verified), subtract(place.verified, place.accounted)
    )
    if not place.live or place.next_offset is None:
        return disagreed
    first = min(r.start_offset for r in place.live)
    behind = [OffsetRange(first, max(first, place.next_offset))]
    return union(disagreed, subtract(subtract(behind, place.covered), place.accepted_loss))


def _duplicates(identity: PartitionIdentity, place: _Partition) -> list[Flaw]:
    within = [_flaw(identity, place, r, n) for p in place.stored for r, n in p.copies]
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
