"""Step 1: recover what an earlier run left open, then propose the ranges of this one."""

from __future__ import annotations

from tideline.model.run import RunRecord
from tideline.pipeline.context import RunContext
from tideline.pipeline.proposing import propose
from tideline.pipeline.recovery import recover


def plan_offset_ranges(run: RunContext) -> RunRecord:
    """The run's record: its frozen plan if there is one, otherwise a new proposal.

    A run that a rewind has undone is planned anew, and so is a backfill whose plan was closed
    without being landed.

    Raises:
        BadInput: The stream asks for what the cluster does not have.
        StreamBusy: The head moved meanwhile.
        ServiceAway: Cluster, table or ledger cannot be asked.
    """
    run.warn()
    state, record = run.snapshot()
    if record is None or record.status == "proposed" or record.is_planned_anew:
        _, record = propose(run, recover(run, state), record)
    return record
