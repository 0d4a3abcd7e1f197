"""Hold the typed table and the quarantine against the raw rows: each in one of them, once. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tideline.model.coverage import Intervals, by_log, intersect, overlaps, subtract, total, union
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity
from tideline.model.verification import LandedRange
from tideline.model.wording import first_few
from tideline.rules.audit import DamagedFile, Flaw, Stored

Held = Mapping[PartitionIdentity, Intervals]


@dataclass(frozen=True, slots=True)
class TypedAudit:
    """What an audit of the typed tables found.

    Args:
        rows: Rows in the typed table.
        quarantined: Rows in quarantine.
        pending: Landed offsets that are not decoded yet; no flaw.
        dropped: Tombstones in neither table, where they are dropped.
        let_go: Records in neither table that the quarantine has lost for their age.
        missing: Decoded coordinates whose raw row is in neither table.
        doubled: Coordinates with more than one row, in one table or in both.
        foreign: Rows at coordinates that nobody has decoded, or that have no raw row.
        damaged: Data files that are gone or cannot be read.
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


def audit_typed(
    covered: Held,
    under_way: Iterable[CoordinateRange],
    landed: Held,
    raw: Mapping[PartitionIdentity, LandedRange],
    typed: Iterable[Stored | DamagedFile],
    quarantined: Iterable[Stored | DamagedFile],
    *,
    dropped_tombstones: Held | None,
    let_go: Held | None = None,
) -> TypedAudit:
    """Compare three tables, coordinate by coordinate.

    Args:
        covered: What is decoded and verified.
        under_way: Coordinates of a plan that is open: rows may stand there already.
        landed: What is landed and verified.
        raw: The raw rows at the decoded coordinates.
        typed: The typed table, file by file.
        quarantined: The quarantine, file by file.
        dropped_tombstones: Raw rows without a value, where they are dropped; any other raw row has
            to be in one of the two. None where tombstones are kept.
        let_go: Coordinates whose rows may have left the quarantine for their age.
    """
    good, bad = _Held(typed), _Held(quarantined)
    open_now = by_log(under_way)
    missing, doubled, foreign, dropped, expired = [], [], [], 0, 0
    for identity in sorted({*covered, *good.offsets, *bad.offsets}):
        planned = open_now.get(identity, ())
        allowed = subtract(covered.get(identity, ()), planned)
        there = raw[identity].offsets if identity in raw else ()
        ours = union(good.offsets[identity], bad.offsets[identity])
        unseen = subtract(intersect(there, allowed), ours)
        tombstones = (dropped_tombstones or {}).get(identity, ())
        gone = subtract((let_go or {}).get(identity, ()), tombstones)
        missing += _flaws(identity, subtract(unseen, union(tombstones, gone)))
        expired += total(intersect(unseen, gone))
        dropped += total(intersect(unseen, tombstones))
        twice = intersect(good.offsets[identity], bad.offsets[identity])
        twice = union(twice, good.copies[identity], bad.copies[identity])
        doubled += _flaws(identity, subtract(twice, planned))
        known = union(intersect(allowed, there), planned)
        foreign += _flaws(identity, subtract(ours, known))
    pending = sum(total(subtract(r, covered.get(i, ()))) for i, r in landed.items())
    damaged = (*good.damaged, *bad.damaged)
    flaws = (tuple(missing), tuple(doubled), tuple(foreign), damaged)
    return TypedAudit(good.rows, bad.rows, pending, dropped, expired, *flaws)


class _Held:
    """What one table holds."""

    def __init__(self, items: Iterable[Stored | DamagedFile]) -> None:
        self.rows = 0
        self.damaged: list[DamagedFile] = []
        self.copies: dict[PartitionIdentity, list[OffsetRange]] = defaultdict(list)
        self.offsets: dict[PartitionIdentity, Intervals] = defaultdict(tuple)
        pieces: dict[PartitionIdentity, list[OffsetRange]] = defaultdict(list)
        for item in items:
            if isinstance(item, DamagedFile):
                self.damaged.append(item)
                continue
            self.rows += item.rows
            pieces[item.identity] += item.offsets
            self.copies[item.identity] += (r for r, _ in item.copies)
        for identity, found in pieces.items():
            self.copies[identity] += overlaps(found)
            self.offsets[identity] = union(found)


def _flaws(identity: PartitionIdentity, intervals: Intervals) -> list[Flaw]:
    place = (None, identity.topic_id, identity.generation, identity.partition)
    return [Flaw(*place, r.start_offset, r.end_offset, len(r)) for r in intervals]
