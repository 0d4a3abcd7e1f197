"""How a stream is doing, whether the brokers' answer tells it, and what became of one record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import chain

from tideline.model.decoding import Decoding
from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Incident
from tideline.model.observation import REASONS, Observation, TopicObservation
from tideline.model.offsets import (
    Intervals,
    OffsetRange,
    PartitionIdentity,
    TopicPartition,
    by_identity,
    intersect,
    subtract,
    total,
)
from tideline.model.plan import BatchPlan, VerifiedRange
from tideline.model.run import RunRecord
from tideline.model.status import Explanation, Outcome, Standing, Status, StreamState
from tideline.model.wording import first_few
from tideline.rules.reset_detection import lost_to_retention


def summarize(
    stream: str,
    head: Head,
    decoding: Decoding,
    open_incidents: Collection[Incident],
    standings: Collection[Standing],
    problem: str | None,
    now: datetime,
) -> Status:
    """A stream's status.

    Args:
        open_incidents: Of landing and decoding.
        standings: Where its partitions stand, by that head.
        problem: Why the brokers' answer is not to be relied on; None if it is.
        now: UTC-aware.
    """
    followed = [
        s for s in standings if s.position is not None and s.position.topic not in head.set_aside
    ]
    lags = [s.lag for s in followed if s.lag is not None]
    has_lag = any(lags)
    unread = [h.written_at for h in head.headroom if h.written_at is not None]
    left = [s for h in head.headroom if (s := h.seconds_left(now)) is not None]
    newest = head.commits[-1] if head.commits else None
    covered = decoding.covered
    return Status(
        stream=stream,
        state=_state(head, open_incidents, has_lag=has_lag),
        partitions=len(followed),
        offset_lag=sum(lags) if lags else None,
        is_measured=all(s.is_observed for s in followed) if followed else problem is None,
        problem=problem,
        oldest_unread_at=min(unread, default=None) if has_lag else None,
        headroom_seconds=min(left, default=None) if has_lag else None,
        last_run=newest.run_id if newest is not None else None,
        last_landed_version=newest.version if newest is not None else None,
        open_incidents=len(open_incidents),
        undecoded=sum(total(subtract(r, covered.get(i, ()))) for i, r in head.covered.items())
        if covered
        else None,
    )


def doubt(
    topics: Iterable[str],
    head: Head,
    standings: Collection[Standing],
    observation: Observation,
    *,
    is_newer: bool,
) -> str | None:
    """Why an observation does not tell how a stream is doing; None if it does.

    Detection tells what it means; until a run has asked it, nobody should read "up to date".

    Args:
        topics: Those that the stream file names.
        standings: Where its partitions stand, by that head and observation.
        is_newer: Whether the head was read before the brokers were asked. If it may have moved on
            since, a log that ends below a next offset is not cut, only seen earlier.
    """
    if is_newer and head.positions and observation.cluster_id != head.cluster_id:
        return f"another cluster: its id was {head.cluster_id} and is {observation.cluster_id}"
    followed = {p.topic: p.topic_id for p in head.positions if p.topic not in head.set_aside}
    found = [
        text
        for name in sorted({*topics, *followed} - set(head.set_aside))
        if (text := _doubt_of(name, observation.topic(name)))
    ]
    here = [s for s in standings if s.topic in followed and s.position is not None]
    if is_newer:
        found += _others(followed, observation)
        found += _cut_logs(here, head.landed)
    elif not found and not all(s.is_observed for s in here):
        found = ["the brokers were asked before the ledger's last change"]
    return first_few(found, 1, "; ") if found else None


def _doubt_of(name: str, seen: TopicObservation | None) -> str | None:
    if seen is None:
        return f"topic {name}: the brokers were not asked about it yet"
    if said := seen.refusal or seen.fault:
        return f"topic {name}: {said}"
    if seen.is_absent:
        return f"topic {name}: there is none in the cluster"
    for partition in seen.partitions:
        if said := partition.refusal or partition.fault:
            return f"topic {name}: partition {partition.partition}: {said}"
    return None


def _others(followed: Mapping[str, str], observation: Observation) -> Iterator[str]:
    for name, topic_id in sorted(followed.items()):
        seen = observation.topic(name)
        if seen is not None and seen.topic_id not in (None, topic_id):
            yield f"topic {name}: created again, its id was {topic_id} and is {seen.topic_id}"


def _cut_logs(
    standings: Iterable[Standing], landed: Mapping[PartitionIdentity, Intervals]
) -> Iterator[str]:
    for s in standings:
        if not s.is_observed or s.position is None:
            continue
        here, following = f"topic {s.topic}: partition {s.partition}", s.position.next_offset
        if s.end_offset is not None and s.end_offset < following:
            yield f"{here}: the log ends at {s.end_offset}, below the next offset {following}"
            continue
        start = s.log_start_offset
        if start is not None and lost_to_retention(s.position, start, landed):
            yield f"{here}: the log starts at {start}, above the next offset {following}"


def _state(head: Head, open_incidents: Collection[Incident], *, has_lag: bool) -> StreamState:
    undecided = [i for i in open_incidents if not i.is_decided]
    if any(i.asked_in is not None for i in undecided):
        return "waiting"
    if undecided:
        return "halted"
    if not head.positions:
        return "never_run"
    return "behind" if has_lag else "up_to_date"


def explain(
    place: TopicPartition,
    offset: int,
    head: Head,
    open_runs: Collection[RunRecord],
    decoding: Decoding,
    closed_runs: Iterable[RunRecord],
    closed_incidents: Iterable[Incident],
) -> Explanation:
    """What became of the record at an offset of today's log.

    Args:
        place: Topic and partition, as they are called today.
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
        # before what is covered: offsets that a decision gave up are covered as well
        if self._is_in(by_identity(self._head.accepted_loss).get(self._identity, ())):
            return self._says("accepted_loss", self._decided(closed_incidents))
        if self._is_in(self._head.covered.get(self._identity, ())):
            return self._covered(chain(self._open_runs, closed_runs))
        for record in self._open_runs:
            if record.is_open and record.plan is not None and self._is_planned(record.plan):
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

    def _is_planned(self, plan: BatchPlan) -> bool:
        return self._is_in(r.offsets for r in plan.ranges if r.identity == self._identity)

    def _decided(self, incidents: Iterable[Incident]) -> str:
        """The decision of the newest closed incident about this record that has one."""
        for incident in incidents:
            finding, decision = incident.finding, incident.decision
            here = (finding.topic_id, finding.partition)
            mine = (self._identity.topic_id, self._identity.partition)
            if here == mine and self._is_in(finding.intervals) and decision is not None:
                who = f"{decision.choice} by {decision.by}: {decision.reason}"
                return f"{incident.incident_id}: {who}"
        return "its loss was accepted"

    def _is_in(self, offsets: Iterable[OffsetRange]) -> bool:
        return bool(intersect(offsets, [self._at]))
