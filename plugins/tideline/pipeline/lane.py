"""Hold a run's lane, unless its ledger has gone missing (R13)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tideline.errors import ResetDetected
from tideline.ledger.state import LedgerState
from tideline.pipeline.context import RunContext
from tideline.rules.table_watch import table_findings


@contextmanager
def hold_lane(run: RunContext) -> Iterator[None]:
    """Hold the lease of the run's lane for the length of a block.

    Taking it is the first write to a new ledger. So before that a ledger that is empty while the
    table is another ledger's is refused: one that was moved or is not mounted has to find its
    place empty when it comes back.

    Raises:
        ResetDetected: The table belongs to another ledger, stream or nobody of ours.
        StreamBusy: Somebody else holds the lane.
    """
    with run.ledger.lease(run.lane_lease, before_first=lambda state: _refuse_missing(run, state)):
        yield


def _refuse_missing(run: RunContext, state: LedgerState) -> None:
    table = run.table.observe()
    if not table.exists:
        return
    for finding in table_findings(None, table, run.stream.stream, state.control.ledger_id):
        raise ResetDetected(
            f"ledger {run.ledger.store.location} is empty, table {run.stream.table.uri} is not:"
            f" {finding} Nothing was created. If the ledger was moved or is not mounted, bring"
            " the ledger back or correct ledger_uri; if this is a new stream, give it another"
            " table",
            incidents=(),
        )
