"""Plan and detect without persisting anything (`plan_only`, `tideline plan`)."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.model.headroom import Headroom
from tideline.model.incident import Finding, Incident, incident_key
from tideline.model.notice import Notice
from tideline.model.plan import BatchProposal
from tideline.pipeline.backfilling import refuses
from tideline.pipeline.context import RunContext, now
from tideline.pipeline.halting import blocked_by, triage_incidents
from tideline.pipeline.landing import settled_head
from tideline.pipeline.observing import findings_of, look, measure_headroom


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
    """One look; nothing is stored, no incident is opened."""
    state = run.ledger.read()
    head = settled_head(run, state)
    left_open = triage_incidents(run, state.live_incidents()).left_open
    found = look(run, head, blocked_by(left_open, head), keep=False)
    observation = found.proposal.observation
    findings = findings_of(run, head, observation)
    verdicts = [f for f in findings if f.kind != "transient"]
    keys = {incident_key(f) for f in verdicts}
    would_be = state.with_incidents(verdicts, run.run_id, now()).control.incidents
    outlook = triage_incidents(run, (i for i in would_be if i.unverified or i.key in keys))
    halts = bool(outlook.halting or outlook.asking)
    if run.request.lane == "backfill":
        halts = bool(verdicts or refuses(run, found.proposal))
    return DryRun(
        proposal=found.proposal,
        findings=findings,
        incidents=state.control.incidents,
        halts=halts,
        notices=found.notices,
        headroom=()
        if run.request.lane == "backfill"
        else measure_headroom(run, found.head, observation),
    )
