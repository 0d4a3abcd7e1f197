"""Read ledger, table and broker for an audit."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import AuditNotClean, ServiceAway
from tideline.ledger import leases
from tideline.model.incident import Finding
from tideline.pipeline.context import RunContext
from tideline.pipeline.decode_audit import typed_against_raw
from tideline.pipeline.observing import observe
from tideline.pipeline.proposing import findings_of
from tideline.pipeline.recovery import head_after_recovery
from tideline.pipeline.table_audit import ledger_against_table
from tideline.rules.audit import Audit


def audit_stream(run: RunContext) -> tuple[Audit, tuple[Finding, ...]]:
    """Ledger against tables, and ledger against broker; reads no values and writes nothing.

    Raises:
        ServiceAway: The brokers do not give a stable answer.
        StreamBusy: Runs closed faster than the table could be read.
        Halted: A rewind was begun and not finished.
    """
    leases.refuse_during_rewind(run.ledger.read(), run.ledger.holder)
    result = replace(ledger_against_table(run), typed=typed_against_raw(run))
    state = run.ledger.read()
    head = head_after_recovery(run, state)
    findings = findings_of(run, state, head, observe(run, head))
    transient = [str(f) for f in findings if f.kind == "transient"]
    if transient:
        raise ServiceAway(f"the audit needs a stable answer: {' '.join(transient)}")
    return result, findings


def require_clean(run: RunContext) -> Audit:
    """An audit that others may build on.

    Raises:
        AuditNotClean: It is not clean; names every kind of flaw with its place.
    """
    result, findings = audit_stream(run)
    flaws = [str(result)] if not result.clean else []
    flaws += [str(f) for f in findings]
    if flaws:
        raise AuditNotClean(
            f"stream {run.stream.stream}: NOT CLEAN: {'; '.join(flaws)}. Next: tideline audit FILE"
            " lists every range; the runbook says what to do about each kind",
            rows=result.rows,
        )
    return result
