"""Read ledger, table and broker for an audit."""

from __future__ import annotations

from tideline.core.audit import Audit, audit
from tideline.core.detection import find_resets
from tideline.core.incident import Finding
from tideline.errors import ServiceAway
from tideline.steps.context import RunContext
from tideline.steps.landing import settled_head
from tideline.steps.observing import observe


def audit_stream(run: RunContext) -> tuple[Audit, tuple[Finding, ...]]:
    """Ledger against table, and ledger against broker; reads no values and writes nothing.

    Raises:
        ServiceAway: The brokers do not give a settled answer.
    """
    state = run.ledger.read()
    found = audit(
        state.head,
        run.ledger.closed_runs(),
        [r for r in state.runs.values() if r.is_open],
        run.table.stored(),
    )
    head = settled_head(run, state)
    observation = observe(run, head)
    findings = find_resets(
        head, observation, stream=run.stream.stream, ledger_id=state.control.ledger_id
    )
    passing = [str(f) for f in findings if f.kind == "passing"]
    if passing:
        raise ServiceAway(f"the audit needs a settled answer: {' '.join(passing)}")
    return found, findings
