"""Plan and detect without persisting anything (`plan_only`, `tideline plan`)."""

from __future__ import annotations

from dataclasses import dataclass

from tideline.core.headroom import Headroom
from tideline.core.incident import Finding, Incident
from tideline.core.notice import Notice
from tideline.core.plan import BatchProposal
from tideline.steps.context import RunContext
from tideline.steps.halting import blocked_by, outlook_of
from tideline.steps.landing import settled_head
from tideline.steps.observing import findings_of, look, measure_headroom


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a live run would read now, and what speaks against it."""

    proposal: BatchProposal
    findings: tuple[Finding, ...]
    open_incidents: tuple[Incident, ...]
    notices: tuple[Notice, ...]
    headroom: tuple[Headroom, ...]


def dry_run(run: RunContext) -> DryRun:
    """One look; nothing is stored, no incident is opened."""
    state = run.ledger.read()
    head = settled_head(run, state)
    left_open = outlook_of(run, state.control.incidents).left_open
    found = look(run, head, blocked_by(left_open, head))
    observation = found.proposal.observation
    return DryRun(
        proposal=found.proposal,
        findings=findings_of(run, head, observation),
        open_incidents=state.control.incidents,
        notices=found.notices,
        headroom=measure_headroom(run, found.head, observation),
    )
