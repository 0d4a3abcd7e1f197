"""What a run did, held against the producer's own log and against what the log still holds."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from deltalake import DeltaTable

from devstack.sample import compare, value_hash
from tests.faults.recorder import Record, Recorder
from tests.worlds.streams import table_rows
from tideline.model.incident import Incident
from tideline.stream.stream import Stream
from tideline.wiring import open_ledger

_OF_A_WHOLE_LOG = ("topic_recreated", "topic_missing", "partition_missing", "cluster_changed")


@dataclass(frozen=True)
class State:
    """Positions past 0 by (topic id, partition), and rows with their copies."""

    positions: dict[tuple[str, int], int]
    rows: Counter[Record]

    @classmethod
    def of(cls, stream: Stream) -> State:
        """What ledger and table hold now."""
        positions = open_ledger(stream).read().head.positions
        rows: Counter[Record] = Counter()
        if DeltaTable.is_deltatable(stream.table.uri):
            for *place, value in table_rows(stream, "topic_id", "partition", "offset", "value"):
                rows[(*place, value_hash(value))] += 1
        moved = {(p.topic_id, p.partition): p.next_offset for p in positions if p.next_offset}
        return cls(moved, rows)

    def distance(self, other: State) -> int:
        """How many positions and rows differ."""
        moved = set(self.positions.items()) ^ set(other.positions.items())
        changed = (self.rows - other.rows) + (other.rows - self.rows)
        return len({place for place, _ in moved}) + changed.total()


@dataclass(frozen=True)
class Counts:
    """What must be 0 in every row.

    Args:
        lost: Records that were acknowledged, and that neither the table has nor an incident (or
            the stream's own gap policy) names, although the log has lost them or the head has
            passed them.
        duplicate: Second copies: of a coordinate, or of a value, since all values differ.
        silent: Positions and rows that moved in spite of a loss without an incident; and verified
            rows that the producer never wrote there.
    """

    lost: int
    duplicate: int
    silent: int


def count(stream: Stream, log: Recorder, before: State) -> Counts:
    """Judge what happened since a state in which all was well."""
    now, (readable, log_starts) = State.of(stream), log.readable()
    held = set(now.rows)
    incidents = _incidents(stream)
    absent = log.acknowledged - held
    passed = {r for r in absent if now.positions.get(r[:2], 0) > r[2]}
    lost = {
        record
        for record in (absent - readable) | passed
        if not any(_names(incident, record) for incident in incidents)
        and not _is_admitted(stream, record)
    }
    replaced = {
        record
        for record in (held & log.acknowledged) - readable
        if record[2] >= log_starts.get(record[:2], 0) and stream.gaps != "compacted"
    }
    foreign = {
        record
        for record in held - log.acknowledged
        if not any(_doubts(incident, record) for incident in incidents)
    }
    moved = now.distance(before) if (lost or replaced) and not incidents else 0
    copies = now.rows.total() - min(len({r[:3] for r in held}), len({r[3] for r in held}))
    return Counts(len(lost), copies, moved + len(foreign))


def assert_exact(stream: Stream, log: Recorder) -> None:
    """The table holds what the producer has written, once, and nothing else."""
    found = compare(log, stream.table.uri)
    assert found.exact, found
    assert found.equal == len(log.written)


def _incidents(stream: Stream) -> list[Incident]:
    """Open ones, and those that were decided; what merely vanished names nothing."""
    ledger = open_ledger(stream)
    closed = [i for i in ledger.closed_incidents() if i.decision is not None]
    return [*ledger.read().control.incidents, *closed]


def _names(incident: Incident, record: Record) -> bool:
    topic_id, partition, offset, _ = record
    finding = incident.finding
    if finding.topic_id not in (None, topic_id) or finding.partition not in (None, partition):
        return False
    if not finding.intervals:
        return finding.kind in _OF_A_WHOLE_LOG
    return any(r.start_offset <= offset < r.end_offset for r in finding.intervals)


def _doubts(incident: Incident, record: Record) -> bool:
    """Whether the row is one that the incident keeps from being verified."""
    topic_id, partition, offset, _ = record
    return any(
        (r.topic_id, r.partition) == (topic_id, partition)
        and r.start_offset <= offset < r.end_offset
        for r in incident.unverified
    )


def _is_admitted(stream: Stream, record: Record) -> bool:
    """Whether the stream's declared policy let a run record this offset as a gap."""
    topic_id, partition, offset, _ = record
    return any(
        gap.reason == stream.gaps and gap.offsets.start_offset <= offset < gap.offsets.end_offset
        for run in open_ledger(stream).closed_runs()
        for verified in run.verified
        if (verified.planned.topic_id, verified.planned.partition) == (topic_id, partition)
        for gap in verified.gaps
    )
