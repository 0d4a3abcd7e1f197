"""From head and observation to a proposal, and the findings that speak against it.

`propose` stores what one observation gives. `stable_proposal` makes it anew until observations
agree (R14): no single answer of a broker is a verdict. A backfill's times become offsets here,
once, and are kept in the ledger, so that neighbouring windows tile (R11).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from tideline.errors import StreamBusy
from tideline.failpoints import reach
from tideline.landing.context import RunContext, log, now
from tideline.landing.halting import triage_incidents
from tideline.landing.observing import adopt, observe, observe_until_stable, stalled_transactions
from tideline.landing.proof import known_token
from tideline.landing.table_commit import create_table
from tideline.ledger.state import LedgerState
from tideline.model.head import Head
from tideline.model.incident import Finding, Notice, incident_key
from tideline.model.observation import Observation, PartitionObservation
from tideline.model.offsets import TopicPartition
from tideline.model.plan import BatchProposal
from tideline.model.request import ResolvedTimestamp
from tideline.model.run import RunRecord
from tideline.rules.backfill import (
    AskedOffsets,
    asked_by_ranges,
    asked_by_window,
    between_boundaries,
    find_window_boundary,
    findings_against,
    plan_backfill,
)
from tideline.rules.incidents import blocked_by
from tideline.rules.planning import new_places, plan_live
from tideline.rules.positions import followed_otherwise, only_followed
from tideline.rules.reset_detection import LEADERS_ANSWER, find_resets, with_observed_ends

_STALE_AFTER = timedelta(seconds=60)
"""A proposal older than this is made anew: the task may have waited, or been cleared."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a run would do, made from one observation; nothing of it is stored yet.

    Args:
        head: With a position for everything new, and all that was seen.
        adopts: Whether it has other positions, or follows other topics, than before.
        notices: New partitions, topics that are followed no longer or again, open transactions.
    """

    head: Head
    adopts: bool
    proposal: BatchProposal
    notices: tuple[Notice, ...]


def draft(
    run: RunContext, head: Head, blocked: frozenset[TopicPartition], *, keep: bool = True
) -> Draft:
    """Observe, and work out what the run would read.

    Args:
        head: What the ledger knows.
        blocked: Partitions that an open incident keeps from moving.
        keep: Whether a backfill's times, resolved here, go into the ledger.

    Raises:
        BadInput: The stream file's start does not fit the log, or what a backfill asks for does
            not.
        ServiceAway: The cluster or the table cannot be asked.
    """
    observed = observe(run, head)
    adopted = adopt(run, head, observed)
    adopts = adopted != head
    adopted, observation = with_observed_ends(adopted, observed)
    if run.request.lane == "backfill":
        asked = _asked_offsets(run, adopted, observation, keep=keep)
        level = run.stream.kafka.isolation_level
        proposal = plan_backfill(adopted, observation, asked, level)
    else:
        proposal = plan_live(adopted, observation, run.stream, blocked)
    notices = (
        *new_places(head, adopted),
        *followed_otherwise(head, adopted, run.stream.kafka),
        *stalled_transactions(run, observation),
    )
    return Draft(adopted, adopts, proposal, notices)


def propose(
    run: RunContext, state: LedgerState, earlier: RunRecord | None
) -> tuple[LedgerState, RunRecord]:
    """This run's record: the open plan that it finishes, or else a new proposal, stored.

    First positions of new partitions are stored with the proposal, before any plan (R10). So is
    what was seen of the others: if it is cut before anybody has read it, that is told.

    Args:
        state: The ledger, with no open plan of another run in the way.
        earlier: This run's record as the caller found it; None if there was none.

    Returns:
        The ledger as it was written, and the record.

    Raises:
        StreamBusy: The head moved meanwhile.
    """
    known = state.runs.get(run.run_id)
    if known is not None and known.status != "proposed":
        return state, known
    left_open = triage_incidents(run, state.live_incidents()).left_open
    made = draft(run, state.head, blocked_by(left_open, state.head))
    before = known or earlier
    begun_at = before.begun_at if before is not None and before.status == "proposed" else None
    replaces, noticed = _replaced(before)
    new = tuple(n for n in made.notices if n not in noticed)
    for notice in new:
        log.warning("%s", notice)
    record = RunRecord(
        run_id=run.run_id,
        lane=run.request.lane,
        status="proposed",
        request_digest=run.request.digest,
        updated_at=now(),
        proposal=made.proposal,
        notices=(*noticed, *new),
        request=run.request,
        replaces=replaces,
        begun_at=begun_at or now(),
    )

    def store(latest: LedgerState) -> LedgerState:
        current = latest.runs.get(run.run_id)
        if current is not None and current.status != "proposed":
            raise StreamBusy("another attempt of this run has frozen its plan meanwhile; run again")
        if made.head.parts_from(latest.head, since=state.head):
            raise StreamBusy(
                "another run observed the logs meanwhile, before a truncation; run again"
            )
        if run.request.lane == "backfill" and not made.adopts:  # the live lane may move meanwhile
            return latest.with_run(record).with_head(latest.head.having_seen(made.head))
        if latest.head != state.head.having_seen(latest.head):
            raise StreamBusy("the head moved while this run was planned; run again")
        kept = latest.without_proposals(run.request.lane, but=run.run_id)
        return kept.with_run(record).with_head(made.head.having_seen(latest.head))

    is_first = state.head.start is None and made.head.start is not None
    if is_first and not made.proposal.observation.table.exists:
        # a ledger that is lost before the first row would start once more, and skip records (R10)
        create_table(run, state.control.ledger_id)
    reach("plan:proposing")
    stored = run.ledger.update(store)
    reach("plan:proposed")
    return stored, record


def _replaced(earlier: RunRecord | None) -> tuple[str | None, tuple[Notice, ...]]:
    """The earlier plan of a run that is planned anew, and what is told of that."""
    if earlier is None or earlier.status == "proposed":
        return (None, ()) if earlier is None else (earlier.replaces, earlier.notices)
    if earlier.plan is None or not earlier.is_to_replan:
        return None, ()
    text = f"plan {earlier.plan.plan_id} of this run was closed: {earlier.superseded_by}"
    topics = dict.fromkeys(r.topic for r in earlier.plan.ranges)
    notices = tuple(Notice("planned_anew", topic, None, text) for topic in topics)
    for notice in notices:
        log.warning("%s", notice)
    return earlier.plan.plan_id, notices


def stable_proposal(
    run: RunContext, state: LedgerState, record: RunRecord
) -> tuple[LedgerState, BatchProposal, tuple[Finding, ...]]:
    """A fresh proposal made from today's head, and findings on which observations agree.

    Args:
        record: The run's, proposed; its proposal counts as the first observation if it is fresh.

    Returns:
        The ledger that the proposal was made from, the proposal, and the findings.

    Raises:
        ServiceAway: Observations did not agree within the stream's `patience_seconds`.
    """
    proposal = record.proposal
    first = proposal if proposal is not None and _is_fresh(proposal, state) else None

    def look() -> tuple[tuple[LedgerState, BatchProposal], tuple[Finding, ...]]:
        nonlocal first
        basis, proposal = state, first
        first = None
        if proposal is None:
            basis, proposed = propose(run, run.ledger.read(), record)
            proposal = proposed.proposal
        if proposal is None:
            raise StreamBusy("another attempt of this run has frozen its plan meanwhile; run again")
        return (basis, proposal), findings_of(run, basis, basis.head, proposal.observation)

    (basis, proposal), findings = observe_until_stable(
        look,
        key=incident_key,
        patience_seconds=run.stream.patience_seconds,
        first_pause_seconds=run.first_pause_seconds,
        may_wait=lambda finding: _may_wait(run, state.head, finding),
    )
    return basis, proposal, findings


def _may_wait(run: RunContext, head: Head, finding: Finding) -> bool:
    """Whether a live run goes on beside a partition whose leader does not answer.

    With `on_incident: proceed`; its position stays. A partition without one could begin too late.
    """
    is_known = any(
        finding.topic == p.topic and finding.partition == p.partition for p in head.positions
    )
    may_proceed = run.stream.on_incident == "proceed" and run.request.lane == "live"
    return may_proceed and is_known and finding.expected == LEADERS_ANSWER


def findings_of(
    run: RunContext, state: LedgerState, head: Head, observation: Observation
) -> tuple[Finding, ...]:
    """What speaks against going on from a head, or against this backfill; decides nothing."""
    ledger_id = state.control.ledger_id
    followed = only_followed(head, run.stream.kafka)
    findings = find_resets(
        followed,
        observation,
        stream=run.stream.stream,
        ledger_id=ledger_id,
        known_token=known_token(run, state, observation.table),
    )
    return findings if run.request.lane == "live" else findings_against(findings, run.request)


def _is_fresh(proposal: BatchProposal, state: LedgerState) -> bool:
    age = now() - proposal.observation.observed_at
    return age < _STALE_AFTER and proposal.head_digest == state.head.digest


def _asked_offsets(
    run: RunContext, head: Head, observation: Observation, *, keep: bool
) -> dict[TopicPartition, AskedOffsets]:
    """What a backfill is about, by partition.

    Args:
        head: With a position for everything that is followed; topics that are set aside have none
            of the window.
        observation: Taken before this call.
        keep: Whether times that are resolved here go into the ledger.

    Raises:
        BadInput: Ranges that the stream or the log does not have.
        ServiceAway: Cluster or ledger cannot be asked.
    """
    request = run.request
    head = only_followed(head, run.stream.kafka)
    if request.window is None:
        level = run.stream.kafka.isolation_level
        return asked_by_ranges(request.ranges, head, observation, level)
    first = _resolve_timestamp(run, request.window.start, head, observation, keep=keep)
    last = _resolve_timestamp(run, request.window.end, head, observation, keep=keep)
    return asked_by_window(head.positions, first, last)


def _resolve_timestamp(
    run: RunContext, at: datetime, head: Head, observation: Observation, *, keep: bool
) -> ResolvedTimestamp:
    """The boundary of a time in every partition that answered; what is known already stays."""
    known = _known(run.ledger.resolved_times(), at)
    answered = _answered(observation)
    unknown = [
        p
        for p in head.positions
        if known.of(p.identity) is None
        and p.topic_partition in answered
        and getattr(observation.topic(p.topic), "topic_id", None) == p.topic_id
    ]
    if not unknown:
        return known
    answers = run.kafka.offsets_at(at, [p.topic_partition for p in unknown])
    looked_up = []
    for position in unknown:
        seen = answered[position.topic_partition]
        boundary = find_window_boundary(
            at, position, seen, answers[position.topic_partition], now()
        )
        looked_up.append((boundary, seen.log_start_offset or 0))

    def shared() -> ResolvedTimestamp:
        """With what is known by now: whoever was first counts."""
        timestamps = run.ledger.resolved_times()
        added = (between_boundaries(b, at, timestamps.values(), start) for b, start in looked_up)
        return _known(timestamps, at).joined(ResolvedTimestamp(at, tuple(added)))

    if not keep:
        return shared()
    resolved = known

    def share(state: LedgerState) -> LedgerState:
        nonlocal resolved
        resolved = shared()
        return state.noting(resolved)

    run.ledger.update(share)
    return resolved


def _answered(observation: Observation) -> dict[TopicPartition, PartitionObservation]:
    return {
        TopicPartition(topic.topic, seen.partition): seen
        for topic in observation.topics
        for seen in topic.partitions
        if seen.answered
    }


def _known(timestamps: Mapping[str, ResolvedTimestamp], at: datetime) -> ResolvedTimestamp:
    return timestamps.get(ResolvedTimestamp(at).key, ResolvedTimestamp(at))
