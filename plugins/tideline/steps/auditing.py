"""Read ledger, table and broker for an audit."""

from __future__ import annotations

from tideline.core.audit import Audit, audit
from tideline.core.detection import find_resets
from tideline.core.incident import Finding
from tideline.steps.context import RunContext
from tideline.steps.observing import observe


def audit_stream(run: RunContext) -> tuple[Audit, tuple[Finding, ...]]:
    """Ledger against table, and ledger against broker; reads no values and writes nothing."""
    state = run.ledger.read()
    found = audit(
        state.head,
        run.ledger.closed_runs(),
        [r for r in state.runs.values() if r.is_open],
        run.table.stored(),
    )
    observation = observe(run, state.head)
    findings = find_resets(
        state.head, observation, stream=run.stream.stream, ledger_id=state.control.ledger_id
    )
    return found, findings
