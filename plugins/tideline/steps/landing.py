"""Whether the table proves a plan's rows, by its commit's mark and by coordinates."""

from __future__ import annotations

from tideline.core.advancing import advance_head
from tideline.core.head import Head
from tideline.core.ledger_state import LedgerState
from tideline.core.plan import BatchPlan
from tideline.core.result import Landing, RunRecord
from tideline.core.verification import Mismatch, VerifiedRange, verify_ranges
from tideline.steps.context import RunContext


def proven_landing(
    run: RunContext, record: RunRecord
) -> tuple[Landing, tuple[VerifiedRange, ...]] | None:
    """The commit of an open plan and its verified ranges; None if it has to be read.

    Both must hold: a commit carries the plan's id, and every planned coordinate is in the
    newest version. The commit alone would still be in the history after somebody restored an
    older version.
    """
    plan = record.plan
    assert plan is not None
    landing = find_landing(run, record)
    newest = run.table.observe().version
    if landing is None or newest is None:
        return None
    good, bad = check(run, plan, newest)
    if bad or sum(v.rows for v in good) < landing.rows:
        return None
    return landing, good


def settled_head(run: RunContext, state: LedgerState) -> Head:
    """The head as it will be once an open plan is settled whose rows the table proves (R3).

    Rows that are in the table are never reported lost, also by those who only look.
    """
    left_open = state.open_live_run()
    proven = proven_landing(run, left_open) if left_open is not None else None
    if left_open is None or left_open.plan is None or proven is None:
        return state.head
    landing, _ = proven
    return advance_head(state.head, left_open.plan, landing)


def find_landing(run: RunContext, record: RunRecord) -> Landing | None:
    """The newest commit with the plan's mark; looks no further back than it can be."""
    plan = record.plan
    assert plan is not None
    after = plan.table_version if record.landing is None else record.landing.version - 1
    return run.table.find_landing(plan.plan_id, after_version=after)


def check(
    run: RunContext, plan: BatchPlan, version: int
) -> tuple[tuple[VerifiedRange, ...], tuple[Mismatch, ...]]:
    """Hold the plan against one version of the table."""
    landed = run.table.landed(plan.ranges, version)
    return verify_ranges(plan.ranges, landed, gaps=run.stream.gaps)
