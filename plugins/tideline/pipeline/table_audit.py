"""The ledger held against every row's coordinates in the table."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import StreamBusy
from tideline.model.coverage import Coverage
from tideline.model.incident import Incident
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.pipeline.context import RunContext
from tideline.rules.audit import Audit, audit

_TRIES = 5


def ledger_against_table(run: RunContext) -> Audit:
    """Every closed run's coverage against every row's coordinates.

    Raises:
        StreamBusy: Runs closed faster than the table could be read.
    """
    for _ in range(_TRIES):
        state, version = run.ledger.read(), run.table.observe().version
        result = audit(
            state.head,
            run.ledger.closed_runs(),
            [r for r in state.runs.values() if r.is_open],
            run.table.stored(),
        )
        after = run.ledger.read()
        # A run that closed meanwhile is in the one and not yet in the other.
        basis = (state.head.coverage, state.runs, version)
        if basis == (after.head.coverage, after.runs, run.table.observe().version):
            return replace(result, table_version=version)
    raise StreamBusy("runs close faster than the table can be read; audit again")


def rows_removed_by_others(run: RunContext, incident: Incident) -> tuple[Coverage, ...]:
    """Verified offsets that a changed table no longer holds; none for other findings."""
    if incident.finding.kind != "table_changed":
        return ()
    return tuple(
        Coverage(
            PartitionIdentity(flaw.topic_id, flaw.generation, flaw.partition),
            (OffsetRange(flaw.start_offset, flaw.end_offset),),
        )
        for flaw in ledger_against_table(run).missing
    )
