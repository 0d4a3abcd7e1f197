"""Read ledger, table and broker for an audit."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import AuditNotClean, ServiceAway, StreamBusy
from tideline.ledger import leases
from tideline.model.incident import Finding
from tideline.pipeline.context import RunContext
from tideline.pipeline.landing import settled_head
from tideline.pipeline.observing import findings_of, observe
from tideline.rules.audit import Audit, audit

_TRIES = 5


def audit_stream(run: RunContext) -> tuple[Audit, tuple[Finding, ...]]:
    """Ledger against table, and ledger against broker; reads no values and writes nothing.

    Raises:
        ServiceAway: The brokers do not give a settled answer.
        StreamBusy: Runs closed faster than the table could be read.
        Halted: A rewind was begun and not finished.
    """
    leases.refuse_during_rewind(run.ledger.read(), run.ledger.holder)
    found = ledger_against_table(run)
    head = settled_head(run, run.ledger.read())
    findings = findings_of(run, head, observe(run, head))
    passing = [str(f) for f in findings if f.kind == "transient"]
    if passing:
        raise ServiceAway(f"the audit needs a settled answer: {' '.join(passing)}")
    return found, findings


def require_clean(run: RunContext) -> Audit:
    """An audit that others may build on.

    Raises:
        AuditNotClean: It is not clean; names every kind of flaw with its place.
    """
    found, findings = audit_stream(run)
    flaws = [str(found)] if not found.clean else []
    flaws += [str(f) for f in findings]
    if flaws:
        raise AuditNotClean(
            f"stream {run.stream.stream}: NOT CLEAN: {'; '.join(flaws)}. Next: tideline audit FILE"
            " lists every range; the runbook says what to do about each kind",
            rows=found.rows,
        )
    return found


def ledger_against_table(run: RunContext) -> Audit:
    """Every closed run's coverage against every row's coordinates.

    Raises:
        StreamBusy: Runs closed faster than the table could be read.
    """
    for _ in range(_TRIES):
        state, version = run.ledger.read(), run.table.observe().version
        found = audit(
            state.head,
            run.ledger.closed_runs(),
            [r for r in state.runs.values() if r.is_open],
            run.table.stored(),
        )
        after = run.ledger.read()
        # A run that closed meanwhile is in the one and not yet in the other.
        seen = (state.head.coverage, state.runs, version)
        if seen == (after.head.coverage, after.runs, run.table.observe().version):
            return replace(found, table_version=version)
    raise StreamBusy("runs close faster than the table can be read; audit again")
