"""Plan and detect without persisting anything (`plan_only`, `tideline plan`)."""

from __future__ import annotations

from tideline.core.detection import find_resets
from tideline.core.incident import Finding
from tideline.core.plan import BatchProposal
from tideline.steps.context import RunContext
from tideline.steps.landing import settled_head
from tideline.steps.observing import look


def dry_run(run: RunContext) -> tuple[BatchProposal, tuple[Finding, ...]]:
    """What a live run would read now, and what speaks against it."""
    state = run.ledger.read()
    head, proposal = look(run, settled_head(run, state))
    findings = find_resets(
        head,
        proposal.observation,
        stream=run.stream.stream,
        ledger_id=state.control.ledger_id,
    )
    return proposal, findings
