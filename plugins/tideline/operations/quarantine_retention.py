"""Remove quarantined rows that are old enough, and note first which ones.

The ledger learns the coordinates before the table loses the rows. If this dies in between, the rows
stand there still, and the next call removes them.
"""

from __future__ import annotations

from tideline.failpoints import reach
from tideline.model.retention import NO_ROWS, LetGo, PlannedRows, RowCount
from tideline.pipeline.attempts import begin_attempt, removal
from tideline.pipeline.commit_loop import Target, commit_checked
from tideline.pipeline.context import RunContext, log, now
from tideline.rules.retention import hulls, plans_before
from tideline.table.maintenance_port import MaintainedTablePort

_NAME = "quarantine"


def expired_rows(run: RunContext, table: MaintainedTablePort) -> PlannedRows | None:
    """The quarantined rows that go; None if no plan is old enough.

    Args:
        run: Its stream says how long they are kept.
        table: The quarantine.

    Raises:
        ServiceAway: A store is away.
    """
    days = run.stream.maintenance.quarantine_days
    if days is None:
        return None
    plans = plans_before(run.ledger.decode_closings(), now(), days)
    return table.rows_of_plans(plans) if plans else None


def let_go(run: RunContext, table: MaintainedTablePort, lease: str) -> RowCount:
    """Remove the quarantined rows that are old enough, in one transaction.

    Args:
        run: This run, with that table and the lease.
        table: The quarantine.
        lease: The lease's name.

    Returns:
        What was removed.

    Raises:
        StreamBusy: The lease was lost.
        AttemptFenced: A newer attempt has written.
        ServiceAway: A store is away.
    """
    found = expired_rows(run, table)
    if found is None or not found.count.rows:
        return NO_ROWS
    attempt = begin_attempt(run, run.ledger.read().control.ledger_id, lease)
    gone = LetGo(
        let_go_id=f"{_NAME}-{attempt.token}",
        run_id=run.run_id,
        by=f"maintenance.quarantine_days: {run.stream.maintenance.quarantine_days}{_asked(run)}",
        at=now(),
        ranges=found.ranges(found.chosen),
    )
    run.ledger.update_under(lease, lambda state: state.with_let_go(gone))
    reach("maintain:let_go_noted")
    # Few ranges: a commit names them all, and rows that go have rarely others between them.
    change = removal(run, attempt, _NAME, found.ranges(hulls(found.chosen, found.others)))
    before = table.size()
    assert before is not None
    target = Target(table, table.uri, lambda: (table.observe(), ()), lambda _: None)
    commit_checked(target, change, (), lambda version: change, before.version)
    reach("maintain:let_go")
    log.info("%s: %d quarantined rows were removed (%s)", table.uri, found.count.rows, gone.by)
    return found.count


def _asked(run: RunContext) -> str:
    return "" if run.request.by is None else f", asked by {run.request.by}"
