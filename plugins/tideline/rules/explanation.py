"""What became of one record: landed by which run, lost, on its way, or not read yet. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

from tideline.model.coverage import by_identity, intersect
from tideline.model.decoding import Decoding
from tideline.model.gaps import REASONS
from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Incident
from tideline.model.offsets import OffsetRange, TopicPartition
from tideline.model.run import RunRecord
from tideline.model.status import Explanation, Outcome
from tideline.model.verification import VerifiedRange


def explain(
    place: TopicPartition,
    offset: int,
    head: Head,
    open_runs: Collection[RunRecord],
    decoding: Decoding,
    closed_runs: Iterable[RunRecord],
    closed_incidents: Iterable[Incident],
) -> Explanation:
    """What became of a record.

    Args:
        place: Its topic and partition, as they are called today.
        offset: Its offset in today's log.
        head: Where the live lane stands.
        open_runs: Records that are not closed yet.
        decoding: The head of the typed tables.
        closed_runs: Newest first; read as far as the one that landed it.
        closed_incidents: Newest first; read as far as the one in which a loss was accepted.
    """
    position = next((p for p in head.positions if p.topic_partition == place), None)
    if position is None:
        text = "the ledger has no position there: the stream has never read this partition"
        return Explanation(*place, offset, "not_followed", text)
    record = _Record(position, offset, head, open_runs, decoding)
    return record.explain(closed_runs, closed_incidents)


class _Record:
    """One record of a followed partition."""

    def __init__(
        self,
        position: PartitionPosition,
        offset: int,
        head: Head,
        open_runs: Collection[RunRecord],
        decoding: Decoding,
    ) -> None:
        self._position = position
        self._at = OffsetRange(offset, offset + 1)
        ((self._identity, _),) = head.generations.split(position.identity, [self._at])
        self._head = head
        self._open_runs = open_runs
        self._decoded = decoding.covered

    def explain(
        self, closed_runs: Iterable[RunRecord], closed_incidents: Iterable[Incident]
    ) -> Explanation:
        if self._is_in(by_identity(self._head.accepted_loss).get(self._identity, ())):
            return self._says("accepted_loss", _decided(self._deciding(closed_incidents)))
        if self._is_in(self._head.covered.get(self._identity, ())):
            return self._covered(chain(self._open_runs, closed_runs))
        for record in self._open_runs:
            if record.is_open and record.plan is not None and self._planned(record) is not None:
                text = f"run {record.run_id} is to read it; it is not verified yet"
                return self._says("in_flight", text, record)
        if self._at.start_offset >= self._position.next_offset:
            away = self._at.start_offset - self._position.next_offset
            return self._says("unread", f"{away} offsets after the next one to be read")
        return self._says("gap", "below the next offset, and no run has verified it: audit it")

    def _covered(self, records: Iterable[RunRecord]) -> Explanation:
        for record in (r for r in records if not r.is_undone):
            for verified in record.verified:
                planned = verified.planned
                if planned.identity == self._identity and self._is_in([planned.offsets]):
                    return self._landed(record, verified)
        return self._says("landed", "by a run that the ledger's history no longer names")

    def _landed(self, record: RunRecord, verified: VerifiedRange) -> Explanation:
        gap = next((g for g in verified.gaps if self._is_in([g.offsets])), None)
        if gap is not None:
            text = f"run {record.run_id} read past it: {REASONS[gap.reason]}"
            return self._says("no_row", text, record)
        lane = "" if record.lane == "live" else ", a backfill"
        return self._says("landed", f"by run {record.run_id}{lane}", record)

    def _says(self, outcome: Outcome, text: str, record: RunRecord | None = None) -> Explanation:
        commit = record.table_commit if record is not None else None
        known = self._decoded
        return Explanation(
            topic=self._position.topic,
            partition=self._position.partition,
            offset=self._at.start_offset,
            outcome=outcome,
            text=text,
            topic_id=self._identity.topic_id,
            generation=self._identity.generation,
            next_offset=self._position.next_offset,
            run_id=record.run_id if record is not None else None,
            table_version=commit.version if commit is not None else None,
            decoded=self._is_in(known.get(self._identity, ())) if known else None,
        )

    def _planned(self, record: RunRecord) -> OffsetRange | None:
        assert record.plan is not None
        ranges = (r for r in record.plan.ranges if r.identity == self._identity)
        return next((r.offsets for r in ranges if self._is_in([r.offsets])), None)

    def _deciding(self, incidents: Iterable[Incident]) -> Incident | None:
        """The newest closed incident about this record whose decision accepted a loss."""
        for incident in incidents:
            finding = incident.finding
            here = (finding.topic_id, finding.partition)
            mine = (self._identity.topic_id, self._identity.partition)
            if here == mine and self._is_in(finding.intervals) and incident.decision is not None:
                return incident
        return None

    def _is_in(self, offsets: Iterable[OffsetRange]) -> bool:
        return bool(intersect(offsets, [self._at]))


def _decided(incident: Incident | None) -> str:
    if incident is None or incident.decision is None:
        return "its loss was accepted"
    decision = incident.decision
    return f"{incident.incident_id}: {decision.choice} by {decision.by}: {decision.reason}"
