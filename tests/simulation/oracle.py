"""What must hold in the end: what was produced has landed once, or is recorded as lost."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

from tests.simulation.current import CurrentRow, folded, states, swept
from tests.simulation.kafka import RECORD
from tests.simulation.properties import Log
from tests.simulation.spark import TYPES, id_of
from tests.simulation.table import Row, key_of
from tests.simulation.table_events import FOREIGN
from tests.simulation.world import World
from tideline.decoding.verifying import typed_against_raw
from tideline.documents import load
from tideline.ledger.state import LedgerState
from tideline.model.current import differing
from tideline.model.erasures import SealedErasure
from tideline.model.incident import Incident
from tideline.model.offsets import OffsetRange, PartitionIdentity, intersect
from tideline.model.request import RunRequest
from tideline.operations.questions import ledger_against_table
from tideline.rules.audit import Flaw

_WHOLE_TOPIC = ("topic_recreated", "topic_missing", "partition_missing")


class Recorded:
    """Every offset that the ledger names as lost, by log, whatever the generation."""

    def __init__(self, world: World, state: LedgerState) -> None:
        self._ranges: dict[Log, list[OffsetRange]] = defaultdict(list)
        self._topics: set[str] = set()
        self.clusters = False
        self.restarted: set[str] = set()
        for log, lost in state.head.accepted_loss.items():
            self._add(log, lost)
        self._kept_out: dict[Log, list[OffsetRange]] = defaultdict(list)
        for log, erased in state.erasing.erased.items():
            self._kept_out[log.topic_id, log.partition] += erased
        self._world = world
        ledger = world.ledger()
        for incident in (*ledger.closed_incidents(), *state.control.incidents):
            self._of_incident(incident)
        for rewind in ledger.rewinds():
            for gone in rewind.lost:
                self._add(gone.planned.identity, (gone.planned.offsets,))

    def _add(self, identity: PartitionIdentity, intervals: tuple[OffsetRange, ...]) -> None:
        self._ranges[identity.topic_id, identity.partition] += intervals

    def _of_incident(self, incident: Incident) -> None:
        finding = incident.finding
        if finding.kind == "cluster_changed":
            self.clusters = True
        elif finding.kind in _WHOLE_TOPIC:
            self._topics.add(str(finding.topic_id))
        elif finding.topic_id is not None and finding.partition is not None:
            self._ranges[finding.topic_id, finding.partition] += finding.intervals
        if incident.decision is not None and incident.decision.choice == "restart":
            self.restarted.add(str(finding.topic_id))

    def join(self, other: Recorded) -> None:
        """Name what another one names, too."""
        for log, ranges in other._ranges.items():
            self._ranges[log] += ranges
        for log, ranges in other._kept_out.items():
            self._kept_out[log] += ranges
        self._topics |= other._topics
        self.clusters |= other.clusters
        self.restarted |= other.restarted

    def holds(self, log: Log, offset: int, serial: int) -> bool:
        """Whether a record is recorded as lost, or is kept out since somebody has asked for it."""
        at = [OffsetRange(offset, offset + 1)]
        return (
            log[0] in self._topics
            or bool(intersect(at, self._ranges[log]))
            or (bool(intersect(at, self._kept_out[log])) and _is_asked(self._world, serial))
        )


def judge(world: World, first: dict[Log, int], forgotten: Iterable[Recorded] = ()) -> Iterator[str]:
    """What is wrong after the end of a history.

    Args:
        world: After its ending.
        first: Where the stream began, by log.
        forgotten: What ledgers named as lost before a backup was put in their place.
    """
    state = world.state()
    if state is None:
        yield "the ledger is nowhere"
        return
    recorded = Recorded(world, state)
    for told in forgotten:
        recorded.join(told)
    yield from _audit(world)
    yield from _erased(world, state)
    yield from _covered(world, state)
    yield from _produced(world, state, first, recorded)
    yield from _reached(world, state)
    yield from _decoded(world)
    if world.stream.current is not None:
        yield from _folded(world, state)


def _folded(world: World, state: LedgerState) -> Iterator[str]:
    """The current table has the last change of each key that is decoded, and nothing else."""
    folding = state.folding
    typed = world.decoded.rows()
    if not typed and folding.layout is None:
        return
    if folding.layout is None or folding.open is not None:
        yield f"nothing is folded, or not to its end: {len(typed)} typed rows"
        return
    stays = SimpleNamespace(of=_stays(world).__getitem__)
    yield from _forgotten(world, state)
    order: Any = SimpleNamespace(
        incarnations=stays, order=folding.order, layout=folding.layout, floors=folding.floors
    )
    wanted = folded(order, (), (swept(order, world.said(r)) for r in typed))
    found: list[Any] = sorted(world.current.rows(), key=lambda row: row.change.key)
    for row in wanted:
        if row not in found:
            yield f"current: {row} is not there: {found}"
    for row in found:
        if row not in wanted:
            yield f"current: {row} is there, wanted {wanted}"
    erased = [*_erased_since(world, {t.serial for t in typed})]
    places = {(r.identity, r.offset) for r in erased} & _places(state)
    lost = [r for r in erased if (r.identity, r.offset) in places]
    for row in folded(order, (), (swept(order, world.said(r)) for r in {*typed, *lost})):
        if row not in wanted and row.change.key in {w.change.key for w in wanted}:
            yield f"current: {row} would be newer than what is left of its key"
    if differing(folding.buckets, states(found)) or len(found) != len(wanted):
        yield f"current: {folding.buckets}, and there are {states(found)}"


def _erased_since(world: World, typed: Collection[int]) -> Iterator[Row]:
    """Rows of the folded event type that changes' erasures have taken out."""
    types = world.decode.types if world.decode is not None else ()
    for row in (r for r in world.typed_once if r.serial not in typed):
        if not types or TYPES[id_of(row.serial) - 1] == types[0].subject:
            yield row


def _forgotten(world: World, state: LedgerState) -> Iterator[str]:
    """No sweep that the current table's log has is taken back without a word."""
    known, wanted = state.folding.floors, _swept(world)
    if wanted not in ((), known) and state.folding.unproven_since is None:
        yield f"swept below {wanted}; the ledger knows {known}, and calls the table proven"


def _swept(world: World) -> tuple[Any, ...]:
    """The floors of the last sweep that the current table's log has, whatever the ledger says."""
    plans = {v.plan_id for v in world.current.versions}
    done = [floors for plan_id, floors in world.sweeps.items() if plan_id in plans]
    return done[-1] if done else ()


def _stays(world: World) -> dict[PartitionIdentity, int]:
    """The number of the stay in which each log was followed: the table has them in their order.

    A topic id that comes back, with a cluster, has new generations.
    """
    found: dict[PartitionIdentity, int] = {}
    stay, last = -1, ""
    for identity in world.table.logs:
        if identity.topic_id != last:
            stay, last = stay + 1, identity.topic_id
        found[identity] = stay
    return found


def _places(state: LedgerState) -> set[tuple[PartitionIdentity, int]]:
    return {(log, o) for log, held in state.erasing.erased.items() for o in _offsets(held)}


def _kept_out(world: World, untold: Collection[str]) -> Iterator[str]:
    """What the table's own log says was erased is not back, nor later records that are refused.

    Of an untold erasure an older ledger has only coordinates: it says so, and asks for the keys.
    """
    versions, stands = world.table.versions, {r.serial: r for r in world.table.rows()}
    theirs = world.restored | world.foreign
    for number, made in enumerate(versions):
        if not made.erasure or number < max(1, world.table.log_start):
            continue
        before, after = (
            {r.serial for group in versions[n].rows.values() for r in group}
            for n in (number - 1, number)
        )
        for serial in sorted((before - after) & {*stands}):
            if (stands[serial].identity, stands[serial].offset) not in theirs:
                yield f"erased, and back: {stands[serial]}"
        told = load(SealedErasure, made.erasure, "a commit").erasure
        if not told.is_future or told.erasure_id in untold:
            continue
        keys = {key_of(serial) for serial in before - after}
        for serial in sorted({*stands} - after):
            if key_of(serial) in keys and (stands[serial][:2]) not in theirs:
                yield f"refused, and there: {stands[serial]}"


def _erased(world: World, state: LedgerState) -> Iterator[str]:
    """Only records of keys that were asked for are kept out, and none of them is in a table."""
    erased = state.erasing.erased if not state.erasing.is_removing else {}
    for row in (r for t in world.former.values() for r in t.rows()):
        offset = row.change.offset if isinstance(row, CurrentRow) else row.offset
        if intersect([OffsetRange(offset, offset + 1)], erased.get(row.identity, ())):
            yield f"erased, and in a former table: {row}"
    yield from _kept_out(world, state.erasing.untold)
    if state.erasing.open and not state.erasing.is_removing:
        places = state.erasing.erased
        for row in (r for t in (*world.tables, *world.of_types.values()) for r in t.rows()):
            if intersect([OffsetRange(row.offset, row.offset + 1)], places.get(row.identity, ())):
                yield f"erased, and there: {row}"
    kept_out = {
        (log.topic_id, log.partition, offset)
        for log, held in state.erasing.erased.items()
        for offset in _offsets(held)
        if offset < FOREIGN
    }
    asked = {
        tuple(origin[1:]) for serial, origin in enumerate(world.origins) if _is_asked(world, serial)
    }
    for place in sorted(kept_out - asked):
        yield f"kept out, and nobody has asked: {place}"


def _decoded(world: World) -> Iterator[str]:
    """Each row of the typed tables holds the record of its raw row, and each raw row has one."""
    if world.stream.decode is None or None in {t.table_id for t in world.tables[1:]}:
        return  # new tables are found once there is something to decode
    result = typed_against_raw(world.context(None, "audit", RunRequest()))
    assert result is not None
    for flaw in (*result.missing, *result.doubled):
        yield f"typed audit: {flaw}"
    raw = {(r.identity, r.offset): r.serial for r in world.table.rows()}
    every = (*world.typed_tables.values(), world.quarantine)
    for row in (row for table in every for row in table.rows()):
        place = (row.identity, row.offset)
        if raw.get(place, row.serial) != row.serial:
            yield f"typed {row} stands where the raw row is record {raw[place]}"
        elif place not in raw and place not in world.taken:
            yield f"typed {row} has no raw row: {world.origins[row.serial]}"
    if result.pending:
        yield f"typed audit: {result.pending} offsets are not decoded"
    yield from _routed(world)


def _routed(world: World) -> Iterator[str]:
    """Each row is in the table of its event type; and where all were decoded again, all are.

    A row whose raw row others have taken away cannot move.
    """
    decode = world.decode
    if decode is None or not decode.types or "types_retold" in world.facts:
        return
    subjects = {one.type: str(one.subject) for one in decode.types}
    raw = {(row.identity, row.offset) for row in world.table.rows()}
    for name, table in world.typed_tables.items():
        for row in (r for r in table.rows() if (r.identity, r.offset) in raw):
            if (subject := TYPES[id_of(row.serial) - 1]) != subjects[name]:
                yield f"{row} of type {subject} is in the table of {name}"
    if "types_as_told" in world.facts:
        wanted = {one.subject for one in decode.types if not one.ended}
        for row in (r for r in world.quarantine.rows() if (r.identity, r.offset) in raw):
            subject = TYPES[id_of(row.serial) - 1]
            if subject in wanted and row.serial not in world.spark.garbled:
                yield f"{row} of type {subject} is in quarantine"


def _audit(world: World) -> Iterator[str]:
    result = ledger_against_table(world.context(None, "audit", RunRequest()))
    foreign = tuple(f for f in result.foreign if not _is_restored(world, f))
    every = (result.gaps, result.overlaps, result.duplicates, result.missing, foreign)
    if any(flaw.start_offset < FOREIGN for flaws in every for flaw in flaws):
        yield f"audit: {result}"
    if result.unverified:
        yield f"audit: unverified rows are left: {', '.join(map(str, result.unverified))}"


def _is_restored(world: World, flaw: Flaw) -> bool:
    """Whether somebody has restored rows that a rewind or a decision had removed: rightly named."""
    identity = PartitionIdentity(flaw.topic_id, flaw.generation, flaw.partition)
    return all((identity, o) in world.restored for o in range(flaw.start_offset, flaw.end_offset))


def _covered(world: World, state: LedgerState) -> Iterator[str]:
    """Each verified offset has the row of a record that was written there, or has none rightly."""
    lost = state.head.accepted_loss | state.erasing.erased
    rows = {(r.identity, r.offset): r for r in world.table.rows()}
    records = _records(world)
    for identity, intervals in state.head.coverage.items():
        log = (identity.topic_id, identity.partition)
        accepted = _offsets(lost[identity])
        for offset in sorted(_offsets(intervals)):
            row = rows.get((identity, offset))
            if row is not None:
                origin = world.origins[row.serial]
                if origin[1:] != (*log, offset):
                    yield f"wrong origin: {row} is {origin}"
            elif (*log, offset) in records and offset not in accepted:
                yield f"verified without a row: {identity} offset {offset}"


def _offsets(intervals: Iterable[OffsetRange]) -> set[int]:
    return {o for r in intervals for o in range(r.start_offset, r.end_offset)}


def _records(world: World) -> set[tuple[str, int, int]]:
    """Where a record stands, in logs that were never cut: in others it may have been another."""
    return {
        (topic.topic_id, number, offset)
        for cluster in world.clusters
        for topic in cluster.topics.values()
        for number, log in enumerate(topic.logs)
        if len(log.epochs) == 1
        for offset, entry in enumerate(log.entries)
        if entry.kind == RECORD
    }


def _is_asked(world: World, serial: int) -> bool:
    """Whether somebody has asked to erase a record."""
    is_text = serial % 5 in world.erased_texts and serial not in world.spark.garbled
    return key_of(serial) in world.erased_keys or is_text


def _produced(
    world: World, state: LedgerState, first: dict[Log, int], recorded: Recorded
) -> Iterator[str]:
    """Each record that a reader could see has landed once, or is recorded as lost."""
    landed: dict[int, int] = defaultdict(int)
    for row in world.table.rows():
        if row.offset < FOREIGN:
            landed[row.serial] += 1
    readable = world.readable()
    there = {(topic.topic_id, number) for _, topic, number, _ in world.live_logs()}
    for serial, origin in enumerate(world.origins[1:], 1):
        log = (origin.topic_id, origin.partition)
        copies = landed[serial]
        if copies > 1 and not recorded.clusters and origin.topic_id not in recorded.restarted:
            yield f"landed {copies} times: record {serial}, {origin}"
        if copies or serial in world.unseen or serial not in readable:
            continue
        if log not in first or origin.offset < first[log]:
            if log not in first and _is_followed(state, origin.topic_id) and log in there:
                yield f"never followed: {origin}"
            continue
        if not recorded.clusters and not recorded.holds(log, origin.offset, serial):
            yield f"LOST: record {serial}, {origin}"


def _is_followed(state: LedgerState, topic_id: str) -> bool:
    return any(p.topic_id == topic_id for p in state.head.positions)


def _reached(world: World, state: LedgerState) -> Iterator[str]:
    """The head is at the end of every log that is followed."""
    positions = {(p.topic_id, p.partition): p for p in state.head.positions}
    retired = {(p.topic_id, p.partition) for p in state.head.retired}
    for name, topic, number, log in world.live_logs():
        key = (topic.topic_id, number)
        if key in retired and key not in positions:
            continue
        position = positions.get(key)
        if position is None:
            yield f"{name}-{number} of {topic.topic_id} is not followed"
        elif position.next_offset != log.stable_end:
            yield f"{position} is at {position.next_offset}, the log ends at {log.stable_end}"
