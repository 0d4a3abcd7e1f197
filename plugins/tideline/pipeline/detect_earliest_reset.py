"""Step 2: hold the ledger against the cluster; freeze the plan if nothing speaks against it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tideline.ledger.state import LedgerState
from tideline.model.head import Head
from tideline.model.headroom import Headroom
from tideline.model.incident import Finding, Incident, incident_key
from tideline.model.plan import BatchProposal
from tideline.model.run import RunRecord
from tideline.pipeline.agreement import agree
from tideline.pipeline.backfilling import freeze_backfill
from tideline.pipeline.context import RunContext, log, now
from tideline.pipeline.freezing import freeze_run
from tideline.pipeline.halting import blocked_by, halt, open_incidents, triage_incidents
from tideline.pipeline.observing import findings_of, measure_headroom, propose_ranges
from tideline.pipeline.plan_offset_ranges import plan_offset_ranges, propose
from tideline.rules.headroom import scarce
from tideline.rules.planning import move_over_coverage

_STALE_AFTER = timedelta(seconds=60)
"""A look older than this is taken again: the task may have waited, or been cleared."""

_HEADROOM_OF_AT_MOST = 200
"""Partitions whose headroom a run measures: those furthest behind."""


def detect_earliest_reset(run: RunContext) -> RunRecord:
    """The run's record: frozen (R1), nothing to do, or still proposed where a decision comes first.

    Raises:
        ResetDetected: Something was found that nobody has decided and no policy lets pass; an
            incident is open and no position moved.
        ServiceAway: The cluster did not settle in time.
    """
    # Another run's proposal replaces one that was never frozen: then plan again.
    record = run.record() or plan_offset_ranges(run)
    if record.status != "proposed":
        _attach(run, record)
        return record
    state, proposal, findings = settled(run, record)
    if run.request.lane == "backfill":
        return freeze_backfill(run, state, proposal, findings)
    incidents = relevant_incidents(run, findings)
    outlook = triage_incidents(run, incidents)
    if outlook.halting:
        halt(run, outlook.halting)
    if outlook.asking or outlook.decided:
        for incident in (*outlook.asking, *outlook.decided):
            log.warning("left to resolve_reset: %s", incident)
        return record
    if not outlook.left_open:
        log.info("no findings")
    return freeze_beside(run, state, proposal, outlook.left_open)


def freeze_beside(
    run: RunContext,
    state: LedgerState,
    proposal: BatchProposal,
    left_open: tuple[Incident, ...],
    *,
    passed_over: tuple[Incident, ...] = (),
    resolved: tuple[Incident, ...] = (),
) -> RunRecord:
    """Freeze a plan of the partitions that no incident concerns.

    Args:
        run: This run.
        state: What the ledger held when the proposal was made.
        proposal: What the run would read if there were no incident.
        left_open: Incidents that stay open.
        passed_over: Incidents whose partitions are left out of this run only.
        resolved: Closed incidents that go into the run's record.
    """
    blocked = blocked_by((*left_open, *passed_over), state.head)
    if blocked:
        proposal = propose_ranges(run, state.head, proposal.observation, blocked)
    headroom = _warned_headroom(run, state.head, proposal)
    return freeze_run(
        run,
        state,
        proposal,
        lambda head: replace(
            move_over_coverage(head, proposal.observation, blocked), headroom=headroom
        ),
        resolved=resolved,
        still_open={i.key for i in left_open},
    )


def settled(
    run: RunContext, record: RunRecord
) -> tuple[LedgerState, BatchProposal, tuple[Finding, ...]]:
    """A fresh proposal made from today's head, and findings that looks agree on.

    Raises:
        ServiceAway: The looks did not settle in the stream's `patience_seconds`.
    """
    known: RunRecord | None = record

    def look() -> tuple[tuple[LedgerState, BatchProposal], tuple[Finding, ...]]:
        nonlocal known
        state = run.ledger.read()
        proposal = known.proposal if known is not None else None
        known = None
        if proposal is None or not _is_fresh(proposal, state):
            proposal = propose(run).proposal
            state = run.ledger.read()
        assert proposal is not None
        return (state, proposal), findings_of(run, state.head, proposal.observation)

    (state, proposal), findings = agree(
        look, key=incident_key, patience_seconds=run.stream.patience_seconds
    )
    return state, proposal, findings


def relevant_incidents(run: RunContext, findings: tuple[Finding, ...]) -> tuple[Incident, ...]:
    """What was found now, and open incidents of landed plans, which no look finds again."""
    found = open_incidents(run, findings)
    ids = {i.incident_id for i in found}
    standing = run.ledger.read().live_incidents()
    return (*found, *(i for i in standing if i.unverified and i.incident_id not in ids))


def _warned_headroom(run: RunContext, head: Head, proposal: BatchProposal) -> tuple[Headroom, ...]:
    """Retention headroom as it is now; warns where it is scarce."""
    found = measure_headroom(run, head, proposal.observation, _HEADROOM_OF_AT_MOST)
    for item in scarce(found, run.stream.headroom_warning_seconds, now()):
        log.warning(
            "%s-%d: retention reaches offset %d in %.0f s (retention.ms %d); raise it or run"
            " more often",
            item.topic,
            item.partition,
            item.next_offset,
            item.seconds_left(now()),
            item.retention_ms,
        )
    return found


def _attach(run: RunContext, record: RunRecord) -> None:
    """R8: a run that came upon another's halted plan halts as well, and opens nothing new."""
    if record.status != "planned" or record.finishes is None or record.plan is None:
        return
    held = run.ledger.read().incidents_of_plan(record.plan.plan_id)
    outlook = triage_incidents(run, held)
    if outlook.halting or outlook.left_open:
        halt(run, (*outlook.halting, *outlook.left_open))


def _is_fresh(proposal: BatchProposal, state: LedgerState) -> bool:
    age = now() - proposal.observation.observed_at
    return age < _STALE_AFTER and proposal.head_digest == state.head.digest
