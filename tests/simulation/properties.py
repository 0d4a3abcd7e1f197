"""What must hold after each event: the fourteen rules, as far as a moment shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from tests.simulation.current import states
from tests.simulation.table import is_valueless
from tests.simulation.world import World
from tideline.ledger.state import LedgerState
from tideline.model.current import differing
from tideline.model.decoding import QUARANTINE
from tideline.model.head import KnownCommit
from tideline.model.incident import Incident
from tideline.model.offsets import (
    Intervals,
    OffsetRange,
    PartitionIdentity,
    intersect,
    subtract,
    union,
)
from tideline.model.places import Places
from tideline.model.plan import BatchPlan
from tideline.model.run import RunRecord

Log = tuple[str, int]
"""Topic id and partition."""

_ALSO_BY: dict[str, tuple[str, ...]] = {
    "truncation": ("retention_loss",),
    "topic_recreated": ("topic_missing", "partition_missing"),
    "topic_missing": ("topic_recreated",),
    "table_changed": ("unexplained_gap",),
}
"""Further classes that a fact justifies: what a run finds depends on when it looks."""


class Watch:
    """Looks at a world after each event, and remembers what it needs for the next look.

    Args:
        world: The world.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._seen: LedgerState | None = None
        self._plans: dict[str, BatchPlan] = {}
        self.incidents: dict[str, str] = {}
        self._versions = 0
        self._found: list[str] = []
        self._proposed_from: dict[str, LedgerState] = {}
        self.first: dict[Log, int] = {}
        self._resolved = 0
        self._decoded: object = None
        self._boundaries: dict[tuple[str, PartitionIdentity], int] = {}
        self._records: dict[tuple[PartitionIdentity, int], int] = {}
        world.committed = self._look_at_ledger
        world.put_back_to = self._forget

    def _look_at_ledger(self) -> None:
        """At each commit to the ledger: a later look would take two changes for one."""
        if self._world.is_put_back and self._world.current.log_start:
            # The fold that the ledger forgot is in no log any more, or will be in none: an erasure
            # that goes on beside the ledger that was put back cuts the log off later.
            self._world.happened("current_changed")
        state = self._world.state()
        if state is not None and state is not self._seen:
            self._found += self._of_ledger(state)
            self._found += self._of_identities(state)
            self._note_shown(state)
            self._seen = state

    def _forget(self, state: LedgerState) -> None:
        """A backup of the ledger was put back: what came after it was never promised."""
        followed = {(p.topic_id, p.partition) for p in (*state.head.positions, *state.head.retired)}
        self.first = {log: begin for log, begin in self.first.items() if log in followed}
        self._seen, self._plans, self._proposed_from = state, {}, {}
        self._resolved, self._boundaries = 0, {}

    def _note_shown(self, state: LedgerState) -> None:
        """How far the ledger has ever been told that a followed log reaches, read or not.

        What comes after a cut, before anybody has decided about it, is part of that doubt. A
        leader of an older epoch tells nothing.
        """
        world = self._world
        followed = {(p.topic_id, p.partition): p for p in state.head.positions}
        logs = {(t.topic_id, n): log for _, t, n, log in world.live_logs()}
        for record in state.runs.values():
            if record.proposal is None or record == self._record_before(record.run_id):
                continue
            for topic in record.proposal.observation.topics:
                for seen in topic.partitions:
                    log = (str(topic.topic_id), seen.partition)
                    position = followed.get(log)
                    if position is None or log not in logs:
                        continue
                    known = position.leader_epoch or 0
                    is_stale = (seen.leader_epoch or 0) < known
                    is_stale |= logs[log].epoch_end(known) < position.proven_end  # it was cut
                    if seen.high_watermark is not None and not is_stale:
                        world.shown[log] = max(world.shown.get(log, 0), seen.high_watermark)

    def _record_before(self, run_id: str) -> RunRecord | None:
        return None if self._seen is None else self._seen.runs.get(run_id)

    def problems(self) -> list[str]:
        """Every promise that is broken now, or was broken since the last look."""
        found, self._found = [*self._found, *self._of_processes()], []
        if self._world.stream.decode is not None and not self._world.is_put_back:
            found += self._of_typed_rows()
        if self._world.stream.current is not None and not self._world.is_put_back:
            found += self._of_current_rows()
        if len(self._world.table.versions) != self._versions:
            found += self._of_table()
            self._versions = len(self._world.table.versions)
        return found

    def _of_processes(self) -> Iterator[str]:
        for process in self._world.processes:
            if process.crash is not None:
                where = process.trace[-1] if process.trace else "its start"
                yield f"{process} crashed after {where}: {process.crash!r}"
            elif process.error is not None and process.error.exit_code == 1:
                yield f"{process} calls it a bug: {process.error}"

    def _of_table(self) -> Iterator[str]:
        """R2: one copy of each coordinate. R4: no replay is shorter. R5: tokens grow."""
        table = self._world.table
        rows = [r for r in table.rows() if (r.identity, r.offset) not in self._world.foreign]
        if len({(r.identity, r.offset) for r in rows}) < len(rows):
            seen: set[object] = set()
            twice = next(r for r in rows if (r[:2] in seen) or seen.add(r[:2]))
            yield f"R2: two copies of {twice}"
        erased = dict[PartitionIdentity, Intervals]()
        if (state := self._world.state()) is not None:
            yield from self._of_identities(state)
            erased = state.erasing.erased
        tokens = [v.token for v in table.versions if v.token is not None]
        if tokens != sorted(set(tokens)):
            yield f"R5: tokens do not grow: {tokens}"
        for before, after in pairwise(table.versions[max(0, self._versions - 1) :]):
            if after.plan_id is None or after.plan_id.endswith(".removed"):
                continue
            left = {(r.identity, r.offset) for group in after.rows.values() for r in group}
            gone = [
                r
                for g in before.rows.values()
                for r in g
                if (r.identity, r.offset) not in left
                and not intersect([OffsetRange(r.offset, r.offset + 1)], erased.get(r.identity, ()))
            ]
            if gone:
                yield f"R4: a replay has replaced {gone[0]} by nothing"

    def _of_identities(self, state: LedgerState) -> Iterator[str]:
        """Where a row was verified once, no other record's ever stands (docs/adr/0037)."""
        covered = state.head.coverage
        for row in self._world.table.rows():
            place = (row.identity, row.offset)
            known = self._records.get(place)
            if known not in (None, row.serial):
                yield f"exchanged: {row} stands where record {known} was verified"
            if any(r.start_offset <= row.offset < r.end_offset for r in covered.get(place[0], ())):
                self._records[place] = row.serial

    def _of_typed_rows(self) -> Iterator[str]:
        """Where a record is landed and decoded, one row of both typed tables holds it."""
        world = self._world
        state = world.state()
        by_name = {**world.typed_tables, QUARANTINE: world.quarantine}
        every = (*world.tables, *by_name.values())
        seen = (world.store.version, *((t.table_id, len(t.versions)) for t in every))
        if state is None or seen == self._decoded or None in {t.table_id for t in world.tables}:
            return
        self._decoded = seen
        ids = {name: table.table_id for name, table in by_name.items()}
        known = state.decoding.known_tables
        if not known or {name: ids.get(name) for name in known} != known:
            return
        if "typed_restored" in world.facts:
            return
        open_now, landed = state.decoding.open, state.head.coverage
        under_way = Places.of((*open_now.plan.ranges, *open_now.plan.removes)) if open_now else {}
        erased = state.erasing.erased  # typed rows go first; and others may put raw ones back
        rows: dict[tuple[PartitionIdentity, int], list[int]] = defaultdict(list)
        for row in (row for table in by_name.values() for row in table.rows()):
            rows[row.identity, row.offset].append(row.serial)
        assert world.table.newest is not None
        for identity, decoded in state.decoding.coverage.items():
            sure = subtract(
                intersect(decoded, landed.get(identity, ())),
                union(under_way.get(identity, ()), erased.get(identity, ())),
            )
            for row in world.table.newest.rows.get(identity, ()):
                if not any(r.start_offset <= row.offset < r.end_offset for r in sure):
                    continue
                if (row.identity, row.offset) in world.restored:
                    continue  # nobody has looked yet; in the end it counts
                dropped = world.drops and is_valueless(row.serial)
                if (held := rows[identity, row.offset]) != [row.serial] * (not dropped):
                    yield f"decoded as {held}: {row}"

    def _of_current_rows(self) -> Iterator[str]:
        """Where no fold is under way, and nobody else was there, the ledger knows the buckets."""
        current, state = self._world.current, self._world.state()
        if state is None or state.folding.open or current.table_id != state.folding.table_id:
            return
        if current.newest is None or "current_changed" in self._world.facts:
            return
        if (current.newest.token or 0) > (state.folding.token or 0):
            return  # of a sleeper, whose plan was given back: the next fold makes all anew
        rows: Any = current.rows()
        if wrong := differing(state.folding.buckets, states(rows)):
            yield f"buckets are not as they were left: {wrong}"

    def _of_ledger(self, state: LedgerState) -> Iterator[str]:
        before = self._seen
        yield from self._of_plans(state)
        yield from self._of_incidents(state)
        yield from self._of_instants()
        yield from self._of_removals(state)
        known = {topic_id for topic_id, _ in self.first}
        for position in state.head.positions:
            log = (position.topic_id, position.partition)
            if log not in self.first and position.topic_id in known and position.next_offset:
                yield f"R10: {position} of a known topic begins at {position.next_offset}"
            self.first.setdefault(log, position.next_offset)
        if before is not None and before.control.rewind is state.control.rewind is None:
            yield from self._of_positions(before, state)
            yield from self._of_losses(before, state)

    def _of_plans(self, state: LedgerState) -> Iterator[str]:
        """R1: frozen once. R3: one live plan. R8: no range of what halts. R12: coverage counts."""
        own = [
            r.run_id
            for r in state.runs.values()
            if r.is_open and r.lane == "live" and r.finishes is None
        ]
        if len(own) > 1:
            yield f"R3: two live plans are open: {own}"
        self._plans = {k: p for k, p in self._plans.items() if k in state.runs}
        for record in state.runs.values():
            if record.plan is None:  # what others verify and find from here on comes too late
                before = self._seen.runs.get(record.run_id) if self._seen is not None else None
                if before is None or before.proposal != record.proposal:
                    self._proposed_from[record.run_id] = state
                continue
            known = self._plans.get(record.run_id)
            if record.finishes is not None:
                continue  # another run's plan; when that is closed, this run makes its own
            if known is not None and known != record.plan:
                yield f"R1: the plan of {record.run_id} is another one"
            if known is None and record.lane == "live":
                yield from self._of_new_plan(state, record.plan)
            self._plans[record.run_id] = record.plan

    def _of_new_plan(self, state: LedgerState, plan: BatchPlan) -> Iterator[str]:
        known = self._proposed_from.get(plan.run_id)
        if known is None:
            return
        coverage = known.head.coverage
        ids = {i.incident_id for i in known.control.incidents}
        for planned in plan.ranges:
            for incident in state.live_incidents():
                if incident.incident_id in ids and incident.finding.concerns(
                    planned.topic_partition
                ):
                    yield f"R8: {planned} is planned beside {incident.incident_id}"
            covered = intersect([planned.offsets], coverage.get(planned.identity, ()))
            if covered:
                yield f"R12: {planned} is planned again: {covered} is verified"

    def _of_incidents(self, state: LedgerState) -> Iterator[str]:
        """R14, and no false alarm: what is found has happened."""
        for incident in (*state.control.incidents, *state.folding.incidents):
            if incident.incident_id not in self.incidents:
                self.incidents[incident.incident_id] = incident.finding.kind
                if not self._is_justified(incident):
                    yield f"false alarm: {incident}"

    def _is_justified(self, incident: Incident) -> bool:
        finding, facts = incident.finding, self._world.facts
        if facts["cluster_changed"]:
            return True
        kinds = {finding.kind, *(k for k, also in _ALSO_BY.items() if finding.kind in also)}
        return any(
            place is None
            or finding.topic is None
            or (place[0] == finding.topic and place[1] in (-1, finding.partition))
            for kind in kinds
            for place in facts.get(kind, ())
        )

    def _of_removals(self, state: LedgerState) -> Iterator[str]:
        """R13: what the head says of a removal is what the removal's commit says."""
        versions = self._world.table.versions
        for known in state.head.commits:
            if known.version >= len(versions) or not known.commit_id.endswith(".removed"):
                continue
            made = versions[known.version]
            if (made.plan_id, made.token) != (known.commit_id, known.token):
                continue  # it has vanished
            place = (known.version, known.token, known.commit_id, known.run_id)
            removed = KnownCommit.of(*place, made.ranges)
            if known != removed:
                yield f"R13: the head knows {known}, and the table has {removed}"

    def _of_instants(self) -> Iterator[str]:
        """R11: an instant is one offset; the windows that meet there neither overlap nor gape."""
        resolved = len(self._world.store.history["instant"])
        if resolved == self._resolved:
            return
        self._resolved = resolved
        with self._world.calm():
            instants = self._world.ledger().resolved_times()
        for key, instant in instants.items():
            for boundary in instant.boundaries:
                first = self._boundaries.setdefault((key, boundary.identity), boundary.offset)
                if first != boundary.offset:
                    was = f"was offset {first} and is offset {boundary.offset}"
                    yield f"R11: in {boundary.topic}-{boundary.identity.partition} {key} {was}"

    def _of_positions(self, before: LedgerState, state: LedgerState) -> Iterator[str]:
        """A position never goes back; it passes what is verified, or recorded as lost."""
        known = {p.identity: p for p in before.head.positions}
        # Below the first offset of a generation the older one is meant.
        coverage, lost = state.head.landed, state.head.of_logs(state.head.accepted_loss)
        for position in state.head.positions:
            earlier = known.get(position.identity)
            if earlier is None or earlier.next_offset == position.next_offset:
                continue
            if position.next_offset < earlier.next_offset:
                if self._closed("truncation", before, state):
                    continue  # only unread records were cut: the generation stays
                if self._world.is_put_back and self._closed("table_changed", before, state):
                    continue  # the table does not hold all that the older ledger calls verified
                yield f"the position of {position} went back from {earlier.next_offset}"
                continue
            passed = [OffsetRange(earlier.next_offset, position.next_offset)]
            rest = subtract(
                subtract(passed, coverage.get(position.identity, ())),
                lost.get(position.identity, ()),
            )
            if rest:
                yield f"the head of {position} passed {rest[0]}, which is not verified"

    def _closed(self, kind: str, before: LedgerState, state: LedgerState) -> bool:
        left = {i.incident_id for i in state.control.incidents}
        return any(
            i.finding.kind == kind and i.incident_id not in left for i in before.control.incidents
        )

    def _of_losses(self, before: LedgerState, state: LedgerState) -> Iterator[str]:
        """R3: rows that stand in the table are never reported lost."""
        if before.head.accepted_loss == state.head.accepted_loss:
            return
        newest = self._world.table.newest
        for log, new in (state.head.accepted_loss - before.head.accepted_loss).items():
            rows = newest.rows.get(log, ()) if newest is not None else ()
            standing = {r.offset for r in rows}
            covered = {
                o for r in state.head.coverage[log] for o in range(r.start_offset, r.end_offset)
            }
            for interval in new:
                offsets = set(range(interval.start_offset, interval.end_offset))
                if told := offsets & standing & covered:
                    yield f"R3: offsets {sorted(told)[:5]} of {log} stand in the table"
