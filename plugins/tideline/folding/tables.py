"""The current table as the ledger knows it, before a fold; and how folding halts."""

from __future__ import annotations

from tideline.errors import BadInput, FoldingHalted, ServiceAway
from tideline.folding.rules import layout_text
from tideline.landing.context import RunContext, log, now
from tideline.ledger.state import LedgerState
from tideline.model.current import Folding, Layout
from tideline.model.incident import Finding, Incident
from tideline.model.observation import TableObservation
from tideline.model.table_features import refusals
from tideline.model.verdicts import FindingClass
from tideline.stream.current import Current
from tideline.table.port import TablePort
from tideline.table.schema import COMPACTION_ID


def section(run: RunContext) -> Current:
    """The stream file's section about the current table."""
    assert run.stream.current is not None
    return run.stream.current


def table_of(run: RunContext) -> TablePort:
    """The current table."""
    assert run.current is not None
    return run.current


def begins_anew(run: RunContext, state: LedgerState, layout: Layout) -> bool:
    """Whether what the ledger calls folded is not in the table: then all is folded anew.

    A new table is a new beginning. So is a table that holds a fold which the ledger does not know:
    the ledger was put back, and its sums are of an earlier state.

    Raises:
        BadInput: The table is somebody else's, another one, or has another layout.
        ServiceAway: The store is away.
    """
    seen, folding = table_of(run).observe(), state.folding
    if wrong := _refusal(run, state, seen, layout):
        raise BadInput(f"stream {run.stream.stream}: current.table.uri: table {wrong}")
    if not seen.exists:
        return True
    if folding.table_id is None or folding.layout is None:
        return True
    known = (COMPACTION_ID, None if folding.open is None else folding.open.plan.plan_id)
    newer = table_of(run).commits_above(folding.token or 0)
    if forgotten := [c for c in newer if c.commit_id not in known]:
        log.warning(
            "the current table has the fold of run %s, which the ledger does not know: all is"
            " folded anew",
            forgotten[0].run_id,
        )
    return bool(forgotten)


def _refusal(
    run: RunContext, state: LedgerState, seen: TableObservation, layout: Layout
) -> str | None:
    """Why the table is not to be touched, and what to do; None where nothing speaks against it."""
    uri, known = section(run).table.uri, state.folding.table_id
    another = "Nothing was folded. Next: give current.table another address: all is folded anew"
    if not seen.exists:
        return None
    if seen.unreadable is not None:
        return f"{uri} cannot be read: {seen.unreadable}. {another}"
    if (seen.stream, seen.ledger_id) != (run.stream.stream, state.control.ledger_id):
        owner = "no stream of Tideline's" if seen.stream is None else f"stream {seen.stream}"
        return f"{uri} belongs to {owner}, or to another ledger. {another}"
    if known is not None and seen.table_id != known:
        return (
            f"{uri} is another one: its id is {seen.table_id}, the ledger knows {known}. {another}"
        )
    if seen.layout != layout_text(layout):
        return (
            f"{uri} was created with {seen.layout}; the stream file says {layout_text(layout)}, and"
            f" key and buckets are fixed. {another}"
        )
    missing = [r for r in refusals(seen) if r.name]
    return "; ".join(f"{uri}: {r.name}: {r.why}; {r.remedy}" for r in missing) or None


def halted(run: RunContext, finding: Finding) -> FoldingHalted:
    """Open an incident about the fold; the error that names it."""
    state = run.ledger.update(lambda s: s.with_folding_halted(finding, run.run_id, now()))
    incident = state.folding.incidents[-1]
    return FoldingHalted(
        f"{incident} Landed and typed rows stay, and both go on", incidents=(incident,)
    )


def decided(folding: Folding, kind: FindingClass, choice: str) -> Incident | None:
    """The open incident of that class with that decision; None if there is none."""
    for incident in folding.incidents:
        decision = incident.decision
        if incident.finding.kind == kind and decision is not None and decision.choice == choice:
            return incident
    return None


def newest_version(run: RunContext) -> int:
    """The current table's version.

    Raises:
        ServiceAway: It is gone.
    """
    version = table_of(run).observe().version
    if version is None:
        uri = section(run).table.uri
        raise ServiceAway(f"table {uri} is gone: nothing moved, restore it, then run again")
    return version
