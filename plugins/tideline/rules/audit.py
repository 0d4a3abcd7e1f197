"""Compare what stands in the tables with the ledger: every record once, and nothing else.

    audit         the raw table: every verified offset has a row, or a reason
    audit_typed   typed table and quarantine: every decoded row of the raw table is in one of them
    CurrentAudit  the current table: its buckets have the rows that the last fold has left there

Both name what is wrong and change nothing; a row is held against coordinates, never against values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Literal

from tideline.model.erasures import NOTHING_ERASED, Erasing
from tideline.model.head import Head
from tideline.model.offsets import (
    CoordinateRange,
    Intervals,
    OffsetRange,
    PartitionIdentity,
    Piece,
    PlannedRange,
    intersect,
    overlaps,
    subtract,
    total,
    union,
)
from tideline.model.places import NOWHERE, Places
from tideline.model.plan import DamagedFile, LandedRange, Stored, places_of
from tideline.model.run import RunRecord
from tideline.model.wording import first_few


@dataclass(frozen=True, slots=True)
class Flaw:
    """Offsets `[start_offset, end_offset)` of one log where table and ledger differ.

    Args:
        topic: Topic name; None if the ledger does not know the topic id.
        offsets: Number of offsets; for duplicates, the number of surplus rows.
    """

    # No `CoordinateRange`: its topic is always known, and its `offsets` are a range.
    topic: str | None
    topic_id: str
    generation: int
    partition: int
    start_offset: int
    end_offset: int
    offsets: int

    def __str__(self) -> str:
        again = f" of generation {self.generation}" if self.generation else ""
        partition = f"{self.topic or self.topic_id}-{self.partition}"
        return f"{partition} [{self.start_offset}, {self.end_offset}){again}"


@dataclass(frozen=True, slots=True)
class TypedAudit:
    """What an audit of the typed tables found.

    Args:
        pending: Landed offsets that are not decoded yet; no flaw.
        dropped: Tombstones in neither table, where they are dropped.
        let_go: Records in neither table that the quarantine has lost for their age.
        missing: Decoded coordinates whose raw row is in neither table.
        doubled: Coordinates with more than one row, in one table or in both.
        foreign: Rows at coordinates that nobody has decoded, or that have no raw row.
    """

    rows: int
    quarantined: int
    pending: int
    dropped: int
    let_go: int
    missing: tuple[Flaw, ...]
    doubled: tuple[Flaw, ...]
    foreign: tuple[Flaw, ...]
    damaged: tuple[DamagedFile, ...]

    @property
    def clean(self) -> bool:
        """Whether there is no flaw."""
        return not (self.missing or self.doubled or self.foreign or self.damaged)

    def __str__(self) -> str:
        kinds = ("missing", "doubled", "foreign", "damaged")
        found = ((kind, getattr(self, kind)) for kind in kinds)
        return "; ".join(f"typed tables: {kind}: {first_few(f)}" for kind, f in found if f)


@dataclass(frozen=True, slots=True)
class BucketFlaw:
    """A bucket of the current table that is not as the ledger says.

    Args:
        bucket: Its number; None for all of them.
        place: `table`: its rows are others than the last fold has left there; `changes`: the
            changes that are decoded make other rows of it; `order`: some of them have no place in
            the one order, so nobody knows what they make.
        expected: What the ledger says, in words.
        found: What was found instead.
    """

    bucket: int | None
    place: Literal["table", "changes", "order"]
    expected: str
    found: str

    def __str__(self) -> str:
        if self.place == "order":
            return f"every bucket is in doubt: expected {self.expected}, found {self.found}"
        if self.bucket is None:
            return f"every bucket is in doubt: {self.found}; expected {self.expected}"
        what = "holds" if self.place == "table" else "would hold, by its changes,"
        return f"bucket {self.bucket} {what} {self.found}; the ledger says {self.expected}"


@dataclass(frozen=True, slots=True)
class CurrentAudit:
    """What a look at the current table's log found, and at the rows of some buckets.

    Args:
        rows, deleted: As the last fold has left it.
        unfolded: Decoded offsets that are not in it yet; no flaw.
        wrong: Buckets with another number of rows; or with others than their changes make, folded
            once more; all of them where others have taken rows away since the last fold.
        checked: The buckets whose rows were read for that.
    """

    rows: int
    deleted: int
    unfolded: int
    wrong: tuple[BucketFlaw, ...]
    checked: tuple[int, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether there is no flaw."""
        return not self.wrong

    def __str__(self) -> str:
        return f"current table: {first_few(self.wrong)}"


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    Args:
        rows: Number of rows in the table.
        gaps: Gaps in the ledger: offsets below the position that no verified run covers, and
            offsets that only the head's coverage or only the closed runs hold.
        overlaps: Offsets in more than one live plan. Backfills do not count: they may read
            landed offsets again.
        duplicates: Coordinates with more than one row, and records with a row in two generations:
            below the first offset of the newer one, the log is the same.
        missing: Verified offsets without a row and without a recorded reason.
        foreign: Rows at coordinates that no plan covers, rows of a generation below its first
            offset, and rows where the log has a marker.
        unverified: Rows of a plan that is still open; they are no error.
        table_version: The version that was read; None without a table.
        erased: Verified offsets whose records were erased by key.
        unerased: What keeps an erasure from being through.
    """

    rows: int
    gaps: tuple[Flaw, ...]
    overlaps: tuple[Flaw, ...]
    duplicates: tuple[Flaw, ...]
    missing: tuple[Flaw, ...]
    foreign: tuple[Flaw, ...]
    unverified: tuple[Flaw, ...]
    table_version: int | None = None
    damaged: tuple[DamagedFile, ...] = ()
    typed: TypedAudit | None = None
    current: CurrentAudit | None = None
    erased: int = 0
    unerased: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether the tables and the ledger agree; unverified rows do not count."""
        wrong = (self.gaps, self.overlaps, self.duplicates, self.missing, self.foreign)
        return not (any(wrong) or self.damaged or self._others())

    def _others(self) -> list[str]:
        """What is wrong with the tables that are made of this one, and with those of before."""
        wrong = [str(t) for t in (self.typed, self.current) if t is not None and not t.clean]
        return [*wrong, *self.unerased]

    def __str__(self) -> str:
        kinds = ("gaps", "overlaps", "duplicates", "missing", "foreign", "damaged")
        by_kind = {kind: getattr(self, kind) for kind in kinds}
        found = [f"{k}: {first_few(flaws)}" for k, flaws in by_kind.items() if flaws]
        return "; ".join([*found, *self._others()])


def audit(
    head: Head,
    closed: Iterable[RunRecord],
    open_runs: Iterable[RunRecord],
    stored: Iterable[Stored | DamagedFile],
    erasing: Erasing = NOTHING_ERASED,
    doubted: Iterable[PlannedRange] = (),
) -> Audit:
    """Compare the ledger with the table.

    Args:
        closed: Every closed run with its verified ranges; an undone run has none.
        open_runs: Runs whose plan is neither verified nor superseded yet.
        stored: What the table's data files hold.
        doubted: Where rows stand that an incident puts in doubt, whether their plan is open or not.
        erasing: What has a row no more, since it was erased by key; a row there is foreign, once
            the erasure that takes it out has done so.

    Returns:
        The result, without `table_version`.
    """
    partitions: dict[PartitionIdentity, _Partition] = defaultdict(_Partition)
    seen: set[tuple[str, PlannedRange]] = set()
    for record in closed:
        for verified in record.verified:
            if record.plan is None or (record.plan.plan_id, verified.planned) in seen:
                continue  # a run that finished another run's plan has the same plan
            seen.add((record.plan.plan_id, verified.planned))
            partition = partitions[verified.planned.identity]
            partition.topic = verified.planned.topic
            partition.verified.append(verified.planned.offsets)
            # whatever explained them: the run has proven that no row belongs there
            partition.accepted_loss.extend(gap.offsets for gap in verified.gaps)
            partition.markers += [gap.offsets for gap in verified.gaps if gap.reason == "marker"]
            if record.lane == "live":
                partition.live.append(verified.planned.offsets)
    plans = (o.plan.ranges for o in open_runs if o.plan is not None)
    for planned in chain(doubted, *plans):
        partitions[planned.identity].topic = planned.topic
        partitions[planned.identity].open.append(planned.offsets)
    _take_head(partitions, head, erasing)
    rows, damaged = 0, []
    for piece in stored:
        if isinstance(piece, DamagedFile):
            damaged.append(piece)
            continue
        rows += piece.rows
        partitions[piece.identity].stored.append(piece)
    # rows alone have no topic's name: the head may know it, also of what is no longer followed
    names = head.topic_names
    for identity, partition in partitions.items():
        partition.topic = partition.topic or names.get(identity.topic_id)
    _compare_generations(partitions, head)
    judged = _judge(rows, partitions, is_removing=erasing.is_removing)
    return replace(judged, damaged=tuple(damaged))


class _Partition:
    """Everything that ledger and table hold of one partition identity."""

    def __init__(self) -> None:
        self.live: list[OffsetRange] = []
        self.verified: list[OffsetRange] = []
        self.accounted: list[OffsetRange] = []
        self.accepted_loss: list[OffsetRange] = []
        self.markers: list[OffsetRange] = []
        self.open: list[OffsetRange] = []
        self.stored: list[Stored] = []
        self.erased: Intervals = ()
        self.topic: str | None = None
        self.next_offset: int | None = None
        self.below: Intervals = ()
        self.twice: Intervals = ()

    @property
    def present(self) -> Intervals:
        """Offsets with a row."""
        return union(r for piece in self.stored for r in piece.offsets)

    @property
    def covered(self) -> Intervals:
        """Offsets in the head's coverage or in a closed run: neither kind makes a row foreign."""
        return union(self.verified, self.accounted)


def _take_head(
    partitions: dict[PartitionIdentity, _Partition], head: Head, erasing: Erasing
) -> None:
    for identity, offsets in erasing.erased.items():
        partitions[identity].erased = offsets
    for identity, offsets in head.coverage.items():
        partitions[identity].accounted.extend(offsets)
    for identity, offsets in head.accepted_loss.items():
        partitions[identity].accepted_loss.extend(offsets)
    for position in head.positions:
        partitions[position.identity].next_offset = position.next_offset


def _compare_generations(partitions: dict[PartitionIdentity, _Partition], head: Head) -> None:
    """Find rows below the first offset of their generation, and those of them that stand twice.

    When a generation began, the log below was left as it was: its records belong to the generations
    before. At and above that offset both generations may have rows, of different records: the older
    ones were landed before the log was cut.
    """
    generations = head.generations
    for identity, partition in partitions.items():
        first = generations.begun.get(identity, 0)
        partition.below = intersect(partition.present, [OffsetRange(0, first)])
        if not partition.below:
            continue
        older = generations.split(
            replace(identity, generation=identity.generation - 1), partition.below
        )
        partition.twice = union(
            r
            for lower, offsets in older
            if lower in partitions
            for r in intersect([offsets], partitions[lower].present)
        )


def _judge(
    rows: int, partitions: dict[PartitionIdentity, _Partition], *, is_removing: bool
) -> Audit:
    erased = 0
    flaws: dict[str, list[Flaw]] = defaultdict(list)
    for identity in sorted(partitions):
        known = partitions[identity]
        present = known.present
        erased += total(subtract(intersect(known.covered, known.erased), present))
        unplanned = subtract(present, known.covered)
        misplaced = subtract(known.below, known.twice)
        for kind, intervals in {
            "gaps": _uncovered(known),
            "overlaps": overlaps(known.live),
            "missing": subtract(
                known.covered, union(known.accepted_loss, known.erased, known.present)
            ),
            "foreign": union(
                subtract(unplanned, known.open),
                misplaced,
                intersect(known.present, union(known.markers)),  # no record was ever there
                () if is_removing else intersect(present, known.erased),  # it has come back
            ),
            "unverified": intersect(unplanned, known.open),
        }.items():
            flaws[kind] += _flaws(identity, intervals, known.topic)
        flaws["duplicates"] += _duplicates(identity, known)
    return Audit(
        rows,
        gaps=tuple(flaws["gaps"]),
        overlaps=tuple(flaws["overlaps"]),
        duplicates=tuple(flaws["duplicates"]),
        missing=tuple(flaws["missing"]),
        foreign=tuple(flaws["foreign"]),
        unverified=tuple(flaws["unverified"]),
        erased=erased,
    )


def _uncovered(known: _Partition) -> Intervals:
    """Where head and closed runs disagree, and what lies below the position without any account."""
    disagreed = union(
        subtract(known.accounted, known.verified), subtract(known.verified, known.accounted)
    )
    if not known.live or known.next_offset is None:
        return disagreed
    first = min(r.start_offset for r in known.live)  # a stream need not begin at the log's start
    behind = [OffsetRange(first, max(first, known.next_offset))]
    return union(disagreed, subtract(subtract(behind, known.covered), known.accepted_loss))


def _duplicates(identity: PartitionIdentity, known: _Partition) -> list[Flaw]:
    within = [_flaw(identity, known.topic, r, n) for p in known.stored for r, n in p.copies]
    across = overlaps(r for piece in known.stored for r in piece.offsets)
    again = (*across, *known.twice)
    return within + _flaws(identity, again, known.topic)


def audit_typed(
    covered: Places,
    under_way: Iterable[CoordinateRange],
    landed: Places,
    raw: Mapping[PartitionIdentity, LandedRange],
    typed: Iterable[Stored | DamagedFile],
    quarantined: Iterable[Stored | DamagedFile],
    *,
    dropped_tombstones: Places | None,
    let_go: Places = NOWHERE,
) -> TypedAudit:
    """Compare three tables, coordinate by coordinate.

    Args:
        covered: What is decoded and verified.
        under_way: Coordinates of a plan that is open: rows may stand there already.
        landed: What is landed and verified.
        raw: The raw rows at the decoded coordinates.
        dropped_tombstones: Raw rows without a value, where they are dropped; any other raw row has
            to be in one of the two. None where tombstones are kept.
        let_go: Coordinates whose rows may have left the quarantine for their age.
    """
    good, bad = _Held(typed), _Held(quarantined)
    open_now, there = Places.of(under_way), places_of(raw)
    allowed, tombstones = covered - open_now, dropped_tombstones or NOWHERE
    of_good, of_bad = Places(good.offsets), Places(bad.offsets)
    ours, gone = of_good | of_bad, let_go - tombstones
    unseen = without_row(there & allowed, ours)
    twice = (of_good & of_bad) | Places.of_pieces((*good.copies, *bad.copies))
    return TypedAudit(
        good.rows,
        bad.rows,
        pending=(landed - covered).offsets,
        dropped=(unseen & tombstones).offsets,
        let_go=(unseen & gone).offsets,
        missing=_all_flaws(without_row(unseen, tombstones, gone)),
        doubled=_all_flaws(twice - open_now),
        foreign=_all_flaws(ours - (allowed & there) - open_now),
        damaged=(*good.damaged, *bad.damaged),
    )


def without_row(raw: Places, *explained: Places) -> Places:
    """Decoded coordinates with a raw row and none that is made of it, where there has to be one.

    Args:
        raw: Where raw rows stand that are decoded.
        explained: Where a row stands in a typed table or in quarantine; where none has to stand, as
            a tombstone was dropped, or a row was let go for its age or erased.
    """
    left = raw
    for places in explained:
        left -= places
    return left


class _Held:
    """What one table holds."""

    def __init__(self, items: Iterable[Stored | DamagedFile]) -> None:
        self.rows = 0
        self.damaged: list[DamagedFile] = []
        self.copies: list[Piece] = []
        self.offsets: dict[PartitionIdentity, Intervals] = {}
        pieces: dict[PartitionIdentity, list[OffsetRange]] = defaultdict(list)
        for item in items:
            if isinstance(item, DamagedFile):
                self.damaged.append(item)
                continue
            self.rows += item.rows
            pieces[item.identity] += item.offsets
            self.copies += ((item.identity, r) for r, _ in item.copies)
        for identity, found in pieces.items():
            self.copies += ((identity, r) for r in overlaps(found))
            self.offsets[identity] = union(found)


def _all_flaws(places: Places) -> tuple[Flaw, ...]:
    return tuple(_flaw(identity, None, r, len(r)) for identity, r in places.pieces)


def _flaws(
    identity: PartitionIdentity, offsets: Iterable[OffsetRange], topic: str | None = None
) -> list[Flaw]:
    return [_flaw(identity, topic, r, len(r)) for r in offsets]


def _flaw(identity: PartitionIdentity, topic: str | None, offsets: OffsetRange, count: int) -> Flaw:
    return Flaw(
        topic,
        identity.topic_id,
        identity.generation,
        identity.partition,
        offsets.start_offset,
        offsets.end_offset,
        count,
    )
