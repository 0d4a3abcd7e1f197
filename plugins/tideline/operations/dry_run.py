"""Plan and detect without persisting anything (`plan_only`, `tideline plan`)."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.model.headroom import Headroom
from tideline.model.incident import Finding, Incident, incident_key
from tideline.model.notice import Notice
from tideline.model.plan import BatchProposal
from tideline.pipeline.context import RunContext, now
from tideline.pipeline.freezing import refuses
from tideline.pipeline.incidents import triage_incidents
from tideline.pipeline.observing import measure_headroom
from tideline.pipeline.proposing import draft, findings_of
from tideline.pipeline.recovery import head_after_recovery
from tideline.rules.triage import blocked_by


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a run would read now, and what speaks against it.

    Args:
        incidents: Those that are open; a finding that is new has none yet.
        halts: Whether a run would halt until somebody decides.
    """

    proposal: BatchProposal
    findings: tuple[Finding, ...]
    incidents: tuple[Incident, ...]
    halts: bool
    notices: tuple[Notice, ...]
    headroom: tuple[Headroom, ...]


def dry_run(run: RunContext) -> DryRun:
    """One observation; nothing is stored, no incident is opened."""
    run.warn()
    state = run.ledger.read()
    head = head_after_recovery(run, state)
    left_open = triage_incidents(run, state.live_incidents()).left_open
    made = draft(run, head, blocked_by(left_open, head), keep=False)
    observation = made.proposal.observation
    findings = findings_of(run, state, head, observation)
    verdicts = [f for f in findings if f.kind != "transient"]
    keys = {incident_key(f) for f in verdicts}
    would_be = state.with_incidents(verdicts, run.run_id, now()).control.incidents
    triage = triage_incidents(run, (i for i in would_be if i.unverified or i.key in keys))
    halts = bool(triage.halting or triage.asking)
    if run.request.lane == "backfill":
        halts = bool(verdicts or refuses(run, made.proposal))
    return DryRun(
        proposal=made.proposal,
        findings=findings,
        incidents=state.control.incidents,
        halts=halts,
        notices=made.notices,
        headroom=()
        if run.request.lane == "backfill"
        else measure_headroom(run, made.head, observation),
    )
