"""Turn a proposal into the run's plan, once (R1)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from dataclasses import replace

from tideline.errors import StreamBusy
from tideline.failpoints import reach
from tideline.ledger.state import LedgerState
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.notice import Notice
from tideline.model.plan import BatchPlan, BatchProposal, freeze
from tideline.model.run import RunRecord
from tideline.pipeline.context import RunContext, log, now
from tideline.rules.backfill import is_about


def freeze_run(
    run: RunContext,
    state: LedgerState,
    proposal: BatchProposal,
    moved_head: Callable[[Head], Head],
    *,
    resolved: tuple[Incident, ...] = (),
    still_open: Collection[Hashable] = (),
    notices: tuple[Notice, ...] = (),
) -> RunRecord:
    """Put the plan if absent; whoever comes second uses the winner's.

    Head, incidents and plan move in one compare-and-swap on the head that was looked at (R9).

    Args:
        run: This run.
        state: What the ledger held when the proposal was made.
        proposal: What to freeze.
        moved_head: From the head that is there to the one to store.
        resolved: Incidents whose decisions the new head carries out, closed.
        still_open: Keys of incidents that stay open; the others are no longer found.
        notices: More to tell of the run.

    Raises:
        StreamBusy: Another run was planned, or the head moved, meanwhile.
    """
    plan = freeze(
        proposal,
        stream=run.stream.stream,
        ledger_id=state.control.ledger_id,
        run_id=run.run_id,
        request=run.request,
        table_uri=run.stream.table.uri,
        now=now(),
    )

    def put_if_absent(latest: LedgerState) -> LedgerState:
        current = latest.runs.get(run.run_id)
        if current is not None and current.status != "proposed":
            return latest
        if current is None or _is_overtaken(run, latest, state, plan):
            raise StreamBusy("another run was planned, or the head moved, meanwhile; run again")
        frozen = replace(
            current,
            status="planned" if plan.ranges else "nothing_to_do",
            plan=plan,
            proposal=None,
            resolved=resolved,
            notices=(*current.notices, *notices),
            updated_at=now(),
        )
        ids = {i.incident_id for i in resolved}
        vanished = (
            i.closed(f"no longer found by run {run.run_id}", now())
            for i in latest.control.incidents
            if run.request.lane == "live"  # a backfill has not looked for them all
            and not i.unverified
            and i.incident_id not in ids
            and i.key not in still_open
        )
        after = latest.with_incidents_closed([*resolved, *vanished]).with_run(frozen)
        return replace(after, head=moved_head(latest.head))

    reach("detect:freezing")
    run.ledger.update(put_if_absent)
    reach("detect:frozen")
    winner = run.record()
    assert winner is not None
    log.info("%s", f"plan {plan.plan_id} is frozen" if plan.ranges else "up to date")
    return winner


def _is_overtaken(run: RunContext, latest: LedgerState, seen: LedgerState, plan: BatchPlan) -> bool:
    """Whether the ledger has moved under a plan; a backfill needs its logs to be followed still."""
    if run.request.lane == "backfill":
        return not is_about(latest.head, plan.ranges)
    return latest.open_live_run() is not None or latest.head.digest != seen.head.digest
