"""Read ledger, table and broker for an audit."""

from __future__ import annotations

from tideline.core.audit import Audit, audit
from tideline.core.incident import Finding
from tideline.errors import ServiceAway
from tideline.steps.context import RunContext
from tideline.steps.landing import settled_head
from tideline.steps.observing import findings_of, observe


def audit_stream(run: RunContext) -> tuple[Audit, tuple[Finding, ...]]:
    """Ledger against table, and ledger against broker; reads no values and writes nothing.

    Raises:
        ServiceAway: The brokers do not give a settled answer.
    """
    found = ledger_against_table(run)
    head = settled_head(run, run.ledger.read())
    findings = findings_of(run, head, observe(run, head))
    passing = [str(f) for f in findings if f.kind == "passing"]
    if passing:
        raise ServiceAway(f"the audit needs a settled answer: {' '.join(passing)}")
    return found, findings


def ledger_against_table(run: RunContext) -> Audit:
    """Every closed run's coverage against every row's coordinates."""
    state = run.ledger.read()
    return audit(
        state.head,
        run.ledger.closed_runs(),
        [r for r in state.runs.values() if r.is_open],
        run.table.stored(),
    )
