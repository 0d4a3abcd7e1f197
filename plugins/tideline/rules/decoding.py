"""What is to be decoded, and whether it was: the raw table's coverage is the measure. Pure.

Typed rows follow the raw ones as a set of coordinates. What is landed and verified, and not decoded
yet, is decoded next, whichever run landed it. What is decoded and no longer landed, after a rewind,
goes. A record never changes: the same coordinates always hold the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

from tideline.model.coverage import Coverage, Intervals, add_coverage, intersect, subtract, total
from tideline.model.decoding import DecodedRange, DecodePlan, DecodeRecord, Decoding
from tideline.model.head import Head
from tideline.model.offsets import CoordinateRange, OffsetRange, PartitionIdentity
from tideline.model.verification import LandedRange

Landed = Mapping[PartitionIdentity, LandedRange]


def decode_plan_id(ledger_id: str, stream: str, run_id: str) -> str:
    """The id of the plan to decode that a run freezes.

    Args:
        ledger_id: The ledger that holds it.
        stream: The stream's name.
        run_id: The run that freezes it.
    """
    name = json.dumps(["decode", ledger_id, stream, run_id])
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def to_decode(head: Head, decoding: Decoding, most: int) -> tuple[CoordinateRange, ...]:
    """Coordinates that are landed and verified, and not decoded yet.

    Args:
        head: Its coverage is what is landed.
        decoding: Its coverage is what is decoded.
        most: How many offsets to take at most; the rest is for later runs.
    """
    found: list[CoordinateRange] = []
    left = most
    for piece in _difference(head.covered, decoding.covered, _names(head)):
        taken = min(left, len(piece.offsets))
        if taken == 0:
            break
        found.append(replace(piece, end_offset=piece.start_offset + taken))
        left -= taken
    return tuple(found)


def to_remove(head: Head, decoding: Decoding) -> tuple[CoordinateRange, ...]:
    """Coordinates that are decoded and no longer landed: a rewind has taken the raw rows away."""
    return tuple(_difference(decoding.covered, head.covered, _names(head)))


def has_work(head: Head, decoding: Decoding) -> bool:
    """Whether a run has something to decode, to remove or to finish."""
    if decoding.open is not None:
        return True
    return bool(to_decode(head, decoding, 1) or to_remove(head, decoding))


def still_landed(ranges: Iterable[CoordinateRange], head: Head) -> tuple[CoordinateRange, ...]:
    """The parts of ranges whose raw rows are landed and verified."""
    covered = head.covered
    return tuple(
        replace(planned, start_offset=piece.start_offset, end_offset=piece.end_offset)
        for planned in ranges
        for piece in intersect([planned.offsets], covered.get(planned.identity, ()))
    )


def reconciled(
    plan: DecodePlan, raw: Landed, typed: Landed, quarantined: Landed, tombstones: int
) -> tuple[tuple[DecodedRange, ...], tuple[str, ...]]:
    """Hold the three tables against each other: every raw row is in one place, once.

    Args:
        plan: Its ranges are looked at.
        raw: What the raw table holds at these coordinates.
        typed: The same of the typed table.
        quarantined: The same of the quarantine.
        tombstones: How many records had no value, as they were counted while they were decoded.

    Returns:
        What became of each range, and what is wrong.
    """
    wrong: list[str] = []
    for name, held in (("raw", raw), ("typed", typed), ("quarantine", quarantined)):
        copies = sum(landed.duplicates for landed in held.values())
        if copies:
            wrong.append(f"{copies} rows too many in the {name} table")
    ranges, unseen = [], 0
    for planned in plan.ranges:
        there = [_within(held, planned) for held in (raw, typed, quarantined)]
        of_raw, of_typed, of_quarantine = there
        if both := intersect(of_typed, of_quarantine):
            wrong.append(f"{planned}: {total(both)} records are typed and in quarantine")
        if strange := subtract([*of_typed, *of_quarantine], of_raw):
            wrong.append(f"{planned}: {total(strange)} rows have no raw row")
        unseen += total(subtract(of_raw, [*of_typed, *of_quarantine]))
        ranges.append(DecodedRange(planned, *map(total, there)))
    dropped = tombstones if plan.tombstones == "drop" else 0
    if unseen != dropped:
        wrong.append(f"{unseen} raw rows are in neither table; {dropped} tombstones were dropped")
    for removed in plan.removes:
        left = [_within(held, removed) for held in (typed, quarantined)]
        if any(left):
            wrong.append(f"{removed}: rows stand where the raw rows are gone")
    return tuple(ranges), tuple(wrong)


def closed(decoding: Decoding, record: DecodeRecord) -> Decoding:
    """The decoding's head after a plan was verified.

    A run that is cleared decodes as it did then; what has been learned about schemas since, stays.
    """
    before = decoding.covered
    is_again = not record.plan.redrives and not any(
        subtract([r.offsets], before.get(r.identity, ())) for r in record.plan.ranges
    )
    parts = decoding.parts if is_again and record.plan.ranges else record.plan.parts
    kept = [
        Coverage(identity, subtract(intervals, _of(record.plan.removes, identity)))
        for identity, intervals in before.items()
    ]
    added = ((r.identity, r.offsets) for r in record.plan.ranges)
    coverage = tuple(c for c in add_coverage(kept, added) if c.intervals)
    return replace(decoding, coverage=coverage, open=None, parts=parts)


def share_of_quarantine(record_rows: int, quarantined: int) -> float:
    """Which part of the records went into quarantine, from 0 to 1."""
    return quarantined / record_rows if record_rows else 0.0


def _within(held: Landed, planned: CoordinateRange) -> Intervals:
    landed = held.get(planned.identity)
    return intersect(landed.offsets, [planned.offsets]) if landed is not None else ()


def _of(ranges: Iterable[CoordinateRange], identity: PartitionIdentity) -> list[OffsetRange]:
    return [r.offsets for r in ranges if r.identity == identity]


def _difference(
    whole: Mapping[PartitionIdentity, Intervals],
    part: Mapping[PartitionIdentity, Intervals],
    names: Mapping[str, str],
) -> Iterable[CoordinateRange]:
    for identity in sorted(whole):
        # The name of a topic that was replaced is known no more; only its id counts here.
        topic = names.get(identity.topic_id, identity.topic_id)
        for piece in subtract(whole[identity], part.get(identity, ())):
            yield CoordinateRange(
                topic,
                identity.topic_id,
                identity.generation,
                identity.partition,
                piece.start_offset,
                piece.end_offset,
            )


def _names(head: Head) -> dict[str, str]:
    return {p.topic_id: p.topic for p in (*head.retired, *head.positions)}
