"""What is to be decoded, whether it was, and whether both tables are those of the ledger. Pure.

Typed rows follow the raw ones as a set of coordinates: the raw table's coverage is the measure.
What is landed and verified, and not decoded yet, is decoded next, whichever run landed it. What is
decoded and no longer landed, after a rewind, goes. The same coordinates always hold the same
record: a log that was cut gets a generation that no other log has had. What a rewind undoes is on
record all the same: compaction may take a record before it is landed again.

Coverage says what is decoded, and not where. So it holds for two tables only, by their ids. Rows
can be decoded again: two tables without rows are a new beginning. One of them alone is a mistake,
since a record may be in either.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tideline.model.decoding import DecodedRange, DecodePlan, DecodeRecord, Decoding
from tideline.model.head import Head
from tideline.model.incident import Finding, Incident
from tideline.model.observation import TableObservation
from tideline.model.offsets import (
    CoordinateRange,
    Intervals,
    PartitionIdentity,
    intersect,
    subtract,
    total,
    union,
)
from tideline.model.places import Places
from tideline.model.plan import LandedRange
from tideline.model.table_features import table_refusals as asked_refusals
from tideline.model.wording import how_many

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
    """Coordinates that are landed and verified, and not decoded yet; older incarnations first.

    Args:
        head: Its coverage is what is landed.
        decoding: Its coverage is what is decoded.
        most: How many offsets to take at most; the rest is for later runs.
    """
    found: list[CoordinateRange] = []
    left = most
    order = head.order_of_incarnations
    pieces = (head.coverage - decoding.coverage).ranges(head.topic_names)
    for piece in sorted(pieces, key=lambda r: order.of(r.identity) or 0):
        taken = min(left, len(piece.offsets))
        if taken == 0:
            break
        found.append(replace(piece, end_offset=piece.start_offset + taken))
        left -= taken
    return tuple(found)


def decided_to_quarantine(decoding: Decoding, ranges: Iterable[CoordinateRange]) -> Incident | None:
    """The open incident of some of these whose bad records go into quarantine, by a decision."""
    wanted = Places.of(ranges)
    for incident in decoding.incidents:
        if incident.has_chosen("quarantine") and Places.of(incident.finding.ranges) & wanted:
            return incident
    return None


def split_decided(
    ranges: Iterable[CoordinateRange], decoding: Decoding
) -> tuple[tuple[CoordinateRange, ...], tuple[CoordinateRange, ...]]:
    """The parts of ranges that a decision is about, and the others."""
    pieces = tuple(ranges)
    incident = decided_to_quarantine(decoding, pieces)
    return split_by_ranges(pieces, incident.finding.ranges if incident is not None else ())


def split_by_ranges(
    ranges: Iterable[CoordinateRange], others: Iterable[CoordinateRange]
) -> tuple[tuple[CoordinateRange, ...], tuple[CoordinateRange, ...]]:
    """The parts of ranges that lie in others, and those that do not."""
    known, pieces = Places.of(others), tuple(ranges)
    return known.cut(pieces), known.rest(pieces)


def covers(finding: Finding, ranges: Iterable[CoordinateRange], names: Iterable[str]) -> bool:
    """Whether a decision about a finding is one about these ranges and names as well."""
    return set(names) <= set(finding.names) and not split_by_ranges(ranges, finding.ranges)[1]


def to_remove(
    head: Head, decoding: Decoding, decoded_now: Iterable[CoordinateRange] = ()
) -> tuple[CoordinateRange, ...]:
    """Coordinates that a rewind has undone, or that are decoded and no longer landed.

    Args:
        decoded_now: What the same plan decodes: its rows replace those that stand there.
    """
    gone = decoding.undone | (decoding.coverage - head.coverage)
    return (gone - Places.of(decoded_now)).ranges(head.topic_names)


def has_to_decode(head: Head, decoding: Decoding) -> bool:
    """Whether a run has something to decode, to remove or to finish."""
    if decoding.open is not None:
        return True
    return bool(to_decode(head, decoding, 1) or to_remove(head, decoding))


def still_decoded(head: Head, decoding: Decoding) -> tuple[CoordinateRange, ...]:
    """Coordinates that are decoded, and whose raw rows are landed and verified."""
    return (decoding.coverage & head.coverage).ranges(head.topic_names)


def in_portions(
    ranges: Iterable[CoordinateRange], most_offsets: int, most_ranges: int
) -> Iterator[tuple[CoordinateRange, ...]]:
    """Ranges in portions, each of at most so many offsets and ranges; one may be split."""
    portion: list[CoordinateRange] = []
    left = most_offsets
    for piece in ranges:
        start = piece.start_offset
        while start < piece.end_offset:
            if not left or len(portion) == most_ranges:
                yield tuple(portion)
                portion, left = [], most_offsets
            end = min(piece.end_offset, start + left)
            portion.append(replace(piece, start_offset=start, end_offset=end))
            left, start = left - (end - start), end
    if portion:
        yield tuple(portion)


def as_one_table(tables: Iterable[Landed]) -> Landed:
    """What several tables hold as if they were one: a coordinate in two of them is there twice."""
    rows: dict[PartitionIdentity, int] = defaultdict(int)
    offsets: dict[PartitionIdentity, Intervals] = defaultdict(tuple)
    for held in tables:
        for identity, landed in held.items():
            rows[identity] += landed.rows
            offsets[identity] = union(offsets[identity], landed.offsets)
    return {i: LandedRange(i, n, offsets[i]) for i, n in rows.items()}


def rows_within(held: Landed, ranges: Iterable[CoordinateRange]) -> int:
    """How many coordinates of ranges have a row."""
    return sum(total(_within(held, planned)) for planned in ranges)


def reconciled(
    plan: DecodePlan, raw: Landed, typed: Landed, quarantined: Landed, tombstones: int
) -> tuple[tuple[DecodedRange, ...], tuple[str, ...]]:
    """Hold the three tables against each other: every raw row is in one place, once.

    Args:
        plan: Its ranges are looked at.
        raw: What the raw table holds at these coordinates.
        typed: The same of the typed table; of several as `joined` has it.
        quarantined: The same of the quarantine.
        tombstones: How many records had no value, as they were counted while they were decoded.

    Returns:
        What became of each range, and what is wrong.
    """
    wrong: list[str] = []
    for name, held in (("raw", raw), ("typed", typed), ("quarantine", quarantined)):
        copies = sum(landed.duplicates for landed in held.values())
        if copies:
            wrong.append(f"{how_many(copies, 'row')} too many in the {name} table")
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
            wrong.append(f"{removed}: rows exist where the raw rows are gone")
    return tuple(ranges), tuple(wrong)


def closed(decoding: Decoding, record: DecodeRecord, *, was_decoded: bool) -> Decoding:
    """The decoding's head after a plan was verified.

    A run that is cleared decodes as it did then; what has been learned about schemas since, stays.

    Args:
        record: The plan, with what became of it.
        was_decoded: Whether its run has closed this very plan before: what has been learned since
            then stays.
    """
    is_old = was_decoded and not record.plan.redrives
    parts = decoding.parts if is_old else record.plan.parts
    done, removed = Places.of(record.plan.ranges), Places.of(record.plan.removes)
    return replace(
        decoding,
        coverage=(decoding.coverage - removed) | done,
        open=None,
        parts=parts,
        undone=decoding.undone - removed - done,
        told=tuple(dict.fromkeys((*decoding.told, *record.untold))),
        failed=decoding.failed if is_old else record.failed,
    )


def share_of_quarantine(record_rows: int, quarantined: int) -> float:
    """Which part of the records went into quarantine, from 0 to 1."""
    return quarantined / record_rows if record_rows else 0.0


def _within(held: Landed, planned: CoordinateRange) -> Intervals:
    landed = held.get(planned.identity)
    return intersect(landed.offsets, [planned.offsets]) if landed is not None else ()


@dataclass(frozen=True, slots=True)
class TypedTable:
    """A table that follows the raw one, as it is now.

    Args:
        key: Key of the stream file that names it.
        uri: Its address there.
        name: The event type whose rows it has, or `QUARANTINE`; "" for the only one.
    """

    key: str
    uri: str
    seen: TableObservation
    name: str = ""

    def __str__(self) -> str:
        return f"{self.key}: table {self.uri}"

    @property
    def is_empty(self) -> bool:
        """Whether the ledger has never put rows there."""
        return not self.seen.exists or self.seen.token is None


def reasons_not_to_touch(
    tables: Sequence[TypedTable], stream: str, ledger_id: str
) -> Iterator[str]:
    """Every reason not to touch a table, whatever was decoded before.

    Args:
        tables: Both.
        stream: Name of this stream, expected in the tables' properties.
        ledger_id: Id of this ledger, expected there as well.
    """
    for table in tables:
        seen = table.seen
        if not seen.exists:
            continue
        if seen.unreadable is not None:
            yield f"{table} cannot be read: {seen.unreadable}"
        elif seen.stream is None:
            yield f"{table} was not created by Tideline; give an address of its own"
        elif seen.stream != stream:
            yield f"{table} belongs to stream {seen.stream}; give an address of its own"
        elif seen.ledger_id != ledger_id:
            yield (
                f"{table} belongs to ledger {seen.ledger_id}, this one is {ledger_id};"
                " give an address of its own"
            )
        else:
            # what is missing is added
            added = tuple(c for c in seen.columns if c.change != "missing")
            for reason in asked_refusals(replace(seen, columns=added)):
                yield f"{table}: {reason.name}: {reason.why}; {reason.remedy}"


def decoding_begins_anew(tables: Sequence[TypedTable], known_ids: Mapping[str, str]) -> bool:
    """Whether what was decoded is in other tables than these, which have no rows yet.

    Args:
        tables: All of them.
        known_ids: Delta's ids of the tables that hold what is decoded, by name; none before the
            first decoding.
    """
    return bool(known_ids) and all(
        table.is_empty
        and (table.name not in known_ids or table.seen.table_id != known_ids[table.name])
        for table in tables
    )


def unknown_tables(
    tables: Sequence[TypedTable], known_ids: Mapping[str, str], token: int | None = None
) -> Iterator[str]:
    """Tables that do not hold what is decoded, in words; nothing where decoding begins anew.

    The table of an event type that was added is new. It has rows only where the ledger was put
    back; then its commits are newer than any that the ledger knows.

    Args:
        tables: All of them.
        known_ids: As in `begins_anew`.
        token: The newest one that the ledger knows of the tables.
    """
    if decoding_begins_anew(tables, known_ids):
        return
    for name in known_ids.keys() - {table.name for table in tables}:
        what = f"the typed table of event type {name}" if name else "one typed table"
        cure = ": name the type, with ended: true if no more of it are to come" if name else ""
        text = f"decode.value.types: the ledger knows {what}, and the stream file does not name it"
        yield text + cure
    for table in tables:
        seen, known = table.seen, known_ids.get(table.name)
        if known is None:
            is_newer = bool(known_ids) and token is not None and (seen.token or 0) > token
            if not table.is_empty and not is_newer:
                yield f"{table} (id {seen.table_id}) holds rows that this ledger does not know"
        elif not seen.exists:
            yield f"{table} is gone, and the ledger knows table {known}"
        elif seen.table_id != known:
            yield f"{table} is another one: its id is {seen.table_id}, the ledger knows {known}"
