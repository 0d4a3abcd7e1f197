"""How a stream is doing, whether the brokers' answer tells it, and what became of one record."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import chain

from tideline.errors import BadInput
from tideline.model.current import Folding
from tideline.model.decoding import Decoding
from tideline.model.erasures import NOTHING_ERASED, Erasing
from tideline.model.head import Head, PartitionPosition
from tideline.model.incident import Incident
from tideline.model.observation import REASONS, Observation, TopicObservation
from tideline.model.offsets import (
    Intervals,
    OffsetRange,
    PartitionIdentity,
    ReadRange,
    TopicPartition,
    intersect,
)
from tideline.model.places import Places
from tideline.model.plan import BatchPlan, VerifiedRange
from tideline.model.run import Rewind, RunRecord
from tideline.model.status import (
    CurrentStatus,
    ErasureUnderWay,
    Explanation,
    Outcome,
    PartitionStatus,
    StreamState,
    StreamStatus,
    TableNameStatus,
)
from tideline.model.wording import first_few, shown
from tideline.rules.reset_detection import lost_to_retention


def summarize(
    stream: str,
    head: Head,
    decoding: Decoding,
    folding: Folding,
    open_incidents: Collection[Incident],
    partitions: Collection[PartitionStatus],
    problem: str | None,
    now: datetime,
    erasing: Erasing = NOTHING_ERASED,
    *,
    is_typed: bool = False,
) -> StreamStatus:
    """A stream's status.

    Args:
        decoding, folding: What is decoded, and what is folded.
        open_incidents: All of them.
        partitions: Where its partitions stand, by that head.
        problem: Why the brokers' answer is not to be relied on; None if it is.
        now: UTC-aware.
        erasing: What was erased by key.
        is_typed: Whether the stream file has typed tables.
    """
    followed = [
        s for s in partitions if s.position is not None and s.position.topic not in head.set_aside
    ]
    lags = [s.lag for s in followed if s.lag is not None]
    has_lag = any(lags)
    known = [s.headroom for s in followed if s.headroom is not None]
    unread = [h.written_at for h in known if h.written_at is not None]
    left = min((x for s in followed if (x := s.seconds_left(now)) is not None), default=None)
    is_estimated = not head.headroom and not any(s.is_expired for s in followed)
    newest = head.commits[-1] if head.commits else None
    is_decoded = bool(decoding.coverage) or is_typed
    undecoded = (head.coverage - decoding.coverage).offsets if is_decoded else None
    return StreamStatus(
        stream=stream,
        state=_state(head, open_incidents, is_behind=has_lag or bool(is_typed and undecoded)),
        partitions=len(followed),
        offset_lag=sum(lags) if lags else None,
        is_measured=all(s.is_observed for s in followed) if followed else problem is None,
        problem=problem,
        oldest_unread_at=min(unread, default=None) if has_lag else None,
        headroom_seconds=left if has_lag else None,
        headroom_estimated=has_lag and left is not None and is_estimated,
        last_run=newest.run_id if newest is not None else None,
        last_landed_version=newest.version if newest is not None else None,
        open_incidents=len(open_incidents),
        undecoded=undecoded,
        in_quarantine=decoding.in_quarantine,
        expectations=dict(decoding.failed),
        names=tuple(
            TableNameStatus(n.role, n.name, n.uri, n.looked_at, n.finding, n.text)
            for n in head.names
        ),
        current=_current(decoding, folding),
        run_seconds=None if head.timings is None else head.timings.by_phase,
        erasures=tuple(
            ErasureUnderWay(
                e.erasure_id,
                "removed" if e.status == "removed" else "begun",
                e.due_at,
                e.is_overdue(now),
            )
            for e in erasing.open
        ),
        untold=erasing.untold,
    )


def _current(decoding: Decoding, folding: Folding) -> CurrentStatus | None:
    if folding.layout is None:
        return None
    return CurrentStatus(
        rows=folding.live,
        deleted=folding.deleted,
        buckets=folding.layout.buckets,
        unfolded=folding.unfolded(decoding.coverage),
        folded_at=folding.folded_at,
        unproven_since=folding.unproven_since,
    )


def doubt(
    topics: Iterable[str],
    head: Head,
    partitions: Collection[PartitionStatus],
    observation: Observation,
    *,
    is_newer: bool,
    incidents: Iterable[Incident] = (),
) -> str | None:
    """Why an observation does not tell how a stream is doing; None if it does.

    Detection tells what it means; until a run has asked it, nobody should read "up to date".

    Args:
        topics: Those that the stream file names.
        partitions: Where its partitions stand, by that head and observation.
        is_newer: Whether the head was read before the brokers were asked. If it may have moved on
            since, a log that ends below a next offset is not cut, only seen earlier.
        incidents: The open ones: a run has looked where they are, and they say more.
    """
    if is_newer and head.positions and observation.cluster_id != head.cluster_id:
        return f"another cluster: its id was {head.cluster_id} and is {observation.cluster_id}"
    followed = {p.topic: p.topic_id for p in head.positions if p.topic not in head.set_aside}
    left = {p.topic for p in head.retired} - followed.keys()
    found = [
        text
        for name in sorted({*topics, *followed} - set(head.set_aside))
        if (text := _doubt_of(name, observation.topic(name), may_be_gone=name in left))
    ]
    here = [s for s in partitions if s.topic in followed and s.position is not None]
    if is_newer:
        halted = {(i.finding.topic, i.finding.partition) for i in incidents}
        others = {name: known for name, known in followed.items() if (name, None) not in halted}
        found += _others(others, observation)
        found += _cut_logs(
            (s for s in here if halted.isdisjoint({(s.topic, s.partition), (s.topic, None)})),
            head.landed,
        )
        asked = {*topics, *followed} - {*head.set_aside, *(t for t, p in halted if p is None)}
        found += _unread_logs(asked, head, observation)
    elif not found and not all(s.is_observed for s in here):
        found = ["the brokers were asked before the ledger's last change"]
    return first_few(found, 1, "; ") if found else None


def _doubt_of(name: str, seen: TopicObservation | None, *, may_be_gone: bool) -> str | None:
    if may_be_gone and (seen is None or seen.is_absent):
        return None
    if seen is None:
        return f"topic {name}: the brokers were not asked about it yet"
    if reason := seen.refusal or seen.fault:
        return f"topic {name}: {reason}"
    if seen.is_absent:
        return f"topic {name}: there is none in the cluster"
    for partition in seen.partitions:
        if reason := partition.refusal or partition.fault:
            return f"topic {name}: partition {partition.partition}: {reason}"
    return None


def _others(followed: Mapping[str, str], observation: Observation) -> Iterator[str]:
    for name, topic_id in sorted(followed.items()):
        seen = observation.topic(name)
        if seen is not None and seen.topic_id not in (None, topic_id):
            yield f"topic {name}: created again, its id was {topic_id} and is {seen.topic_id}"


def _cut_logs(
    partitions: Iterable[PartitionStatus], landed: Mapping[PartitionIdentity, Intervals]
) -> Iterator[str]:
    for s in partitions:
        if not s.is_observed or s.position is None:
            continue
        here, following = f"topic {s.topic}: partition {s.partition}", s.position.next_offset
        if s.end_offset is not None and s.end_offset < following:
            yield f"{here}: the log ends at {s.end_offset}, below the next offset {following}"
            continue
        start = s.log_start_offset
        if start is not None and lost_to_retention(s.position, start, landed):
            yield f"{here}: the log starts at {start}, above the next offset {following}"


def _unread_logs(topics: Iterable[str], head: Head, observation: Observation) -> Iterator[str]:
    """Logs with records that have no position: no lag counts these."""
    positions, retired = head.topics, {(p.topic_id, p.partition): p for p in head.retired}
    asked = sorted(topics) if positions or retired else ()  # before the first run nothing has one
    for topic in filter(None, map(observation.topic, asked)):
        known = positions.get(topic.topic, [])
        numbers = {p.partition for p in known}
        if any(p.topic_id != topic.topic_id for p in known):
            continue  # another topic by now, which is told
        for seen in topic.partitions:
            start, end = seen.log_start_offset, seen.high_watermark
            if start is None or end is None or seen.partition in numbers:
                continue
            here = f"topic {topic.topic}: partition {seen.partition}"
            gone = retired.get((str(topic.topic_id), seen.partition))
            if gone is not None and gone.next_offset < end:
                at = f"retired at {gone.next_offset}, and the log ends at {end}"
                yield f"{here}: {at}: no run reads on there"
            elif gone is None and end > (0 if known else start):
                yield f"{here}: no run has read it yet, and the log is [{start}, {end})"


def _state(head: Head, open_incidents: Collection[Incident], *, is_behind: bool) -> StreamState:
    undecided = [i for i in open_incidents if not i.is_decided]
    if any(i.asked_in is not None for i in undecided):
        return "waiting"
    if undecided:
        return "halted"
    if open_incidents:
        return "decided"
    if not (head.positions or head.retired):
        return "never_run"
    return "behind" if is_behind else "up_to_date"


def explain_offset(
    place: TopicPartition,
    offset: int,
    head: Head,
    open_runs: Collection[RunRecord],
    open_incidents: Collection[Incident],
    decoding: Decoding,
    closed_runs: Iterable[RunRecord],
    closed_incidents: Iterable[Incident],
    erasing: Erasing,
    most_runs: int | None = None,
    rewind: Rewind | None = None,
) -> Explanation:
    """What became of the record at an offset of today's log, as the ledger has it.

    Args:
        place: Topic and partition, as they are called today.
        closed_runs: Newest first; read as far as the one that landed it.
        closed_incidents: Newest first; read as far as the one in which a loss was accepted.
        erasing: What was erased by key.
        most_runs: So many runs are looked at, at most; None for all.
        rewind: The one that is not finished, if there is one: what it removes may be gone.
    """
    position = next((p for p in head.positions if p.topic_partition == place), None)
    if position is None:  # the one that was followed last
        incarnations = head.order_of_incarnations
        retired = [p for p in head.retired if p.topic_partition == place]
        position = max(retired, key=lambda p: incarnations.of(p.identity) or 0, default=None)
    if position is None:
        text = "the ledger has no position there: the stream has never read this partition"
        return Explanation(*place, offset, "not_followed", text)
    at = [OffsetRange(offset, offset + 1)]
    if intersect(head.of_logs(erasing.erased).get(position.identity, ()), at):
        text = "it was erased by key, and is kept out: tideline erasures FILE"
        for erasure in erasing.open:
            ranges = head.of_logs(Places.of(erasure.ranges)).get(position.identity, ())
            if erasure.status == "begun" and intersect(ranges, at):
                text = (
                    f"{erasure.erasure_id} erases it by key, and is not finished: its row may still"
                    " stand. If that was cut off, tideline erase FILE goes on"
                )
        return Explanation(*place, offset, "erased", text, topic_id=position.topic_id)
    record = _Record(position, offset, head, open_runs, open_incidents, decoding)
    found = record.explain(closed_runs, closed_incidents, most_runs)
    if rewind is not None and record.is_among(rewind.removes):
        return _adding(found, f"its row goes, or is gone: {rewind.under_way}")
    return found


def with_log(found: Explanation, observation: Observation) -> Explanation:
    """What the ledger says of an offset that no run has read, and what its log says of it now.

    Raises:
        BadInput: There is no such topic, partition or offset.
    """
    topic = observation.topic(found.topic)
    if topic is None or (topic.fault or topic.refusal):
        why = "they were not asked" if topic is None else topic.fault or topic.refusal
        return _adding(found, f"the brokers do not say whether the record is in the log: {why}")
    here = f"{found.topic}-{found.partition}"
    if found.topic_id not in (None, topic.topic_id):
        if found.outcome == "not_followed":
            return found  # it was retired: nobody looks there
        return _adding(found, "the topic was deleted or re-created; the next run will report that")
    if topic.is_absent:
        raise BadInput(f"topic: got {shown(found.topic)}; the cluster has no such topic")
    seen = topic.partition(found.partition)
    if seen is None:
        every = f"0 to {len(topic.partitions) - 1}"
        raise BadInput(f"partition: got {found.partition}; allowed for {found.topic}: {every}")
    start, end = seen.log_start_offset, seen.high_watermark
    if start is None or end is None:
        why = seen.fault or seen.refusal
        return _adding(found, f"the brokers do not say whether the record is in the log: {why}")
    if found.offset >= end:
        allowed = f"below {end}, where the log of {here} ends" if end else f"none, {here} is empty"
        raise BadInput(f"offset: got {found.offset}; allowed: {allowed}")
    if found.offset < start:
        text = f"no run has read it, and Kafka has deleted it: the log starts at {start}"
        return replace(found, outcome="deleted", text=text)
    return found


def _adding(found: Explanation, text: str) -> Explanation:
    return replace(found, text=f"{found.text}; {text}")


class _Record:
    """One record of a followed partition."""

    def __init__(
        self,
        position: PartitionPosition,
        offset: int,
        head: Head,
        open_runs: Collection[RunRecord],
        open_incidents: Collection[Incident],
        decoding: Decoding,
    ) -> None:
        self._position = position
        self._at = OffsetRange(offset, offset + 1)
        ((self._identity, _),) = head.generations.split(position.identity, [self._at])
        self._head = head
        self._open_runs = open_runs
        self._open_incidents = open_incidents
        self._decoded = decoding.coverage

    def explain(
        self,
        closed_runs: Iterable[RunRecord],
        closed_incidents: Iterable[Incident],
        most_runs: int | None,
    ) -> Explanation:
        # before what is covered: offsets that a decision gave up are covered as well
        if self._is_in(self._head.accepted_loss[self._identity]):
            return self._says("accepted_loss", self._decided(closed_incidents))
        if self._is_in(self._head.coverage[self._identity]):
            return self._covered(chain(self._open_runs, closed_runs), most_runs)
        if (incident := self._about(self._open_incidents)) is not None:
            return self._says("at_stake", self._at_stake(incident))
        for record in self._open_runs:
            if record.is_open and record.plan is not None and self._is_planned(record.plan):
                text = f"run {record.run_id} is to read it; it is not verified yet"
                return self._says("in_flight", text, record)
        if self._position not in self._head.positions:
            text = f"retired at offset {self._position.next_offset}: no run reads on there"
            return self._says("not_followed", text)
        if self._at.start_offset >= self._position.next_offset:
            away = self._at.start_offset - self._position.next_offset
            return self._says("unread", f"{away} offsets after the next one to be read")
        return self._says("gap", "below the next offset, and no run has verified it: audit it")

    def _covered(self, records: Iterable[RunRecord], most_runs: int | None) -> Explanation:
        for number, record in enumerate(records):
            if number == most_runs:
                text = f"by a run before the newest {number:,}: `tideline explain` names it"
                return self._says("landed", text)
            for verified in () if record.is_undone else record.verified:
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
        return self.is_among(plan.ranges)

    def _decided(self, incidents: Iterable[Incident]) -> str:
        """The decision of the newest closed incident about this record that has one."""
        incident = self._about(i for i in incidents if i.decision is not None)
        if incident is None or incident.decision is None:
            return "its loss was accepted"
        decision = incident.decision
        return f"{incident.incident_id}: {decision.choice} by {decision.by}: {decision.reason}"

    def _at_stake(self, incident: Incident) -> str:
        finding, decision = incident.finding, incident.decision
        text = f"{incident.incident_id}: {finding.kind}: {finding.cause}"
        if decision is None or not incident.is_decided:
            return f"{text}; nobody has decided"
        decided = f"{decision.choice} by {decision.by}: {decision.reason}"
        return f"{text}; {decided}; the next run carries it out"

    def _about(self, incidents: Iterable[Incident]) -> Incident | None:
        """The first incident with this record at stake."""
        mine = (self._identity.topic_id, self._identity.partition)
        for incident in incidents:
            finding = incident.finding
            if (finding.topic_id, finding.partition) == mine and self._is_in(finding.intervals):
                return incident
        return None

    def is_among(self, ranges: Iterable[ReadRange]) -> bool:
        """Whether it lies in some coordinates."""
        return self._is_in(r.offsets for r in ranges if r.identity == self._identity)

    def _is_in(self, offsets: Iterable[OffsetRange]) -> bool:
        return bool(intersect(offsets, [self._at]))
