"""Step 6: move the head by compare-and-swap, then tell others."""

from __future__ import annotations

from dataclasses import replace

from tideline.failpoints import reach
from tideline.ledger.state import LedgerState
from tideline.model.plan import BatchPlan
from tideline.model.run import RunRecord, TableCommit
from tideline.model.verification import VerifiedRange
from tideline.pipeline.context import RunContext, log, now
from tideline.pipeline.verify_ranges import verify_ranges
from tideline.rules.advance import advance_head


def advance_offsets(run: RunContext) -> RunRecord:
    """The run's closed record; the head is past the plan's ranges.

    Repeating it moves nothing and tells the consumer group again.

    Raises:
        VerificationFailed: The rows are not there after all.
        StreamBusy: The head is neither at the plan's start nor past its end.
    """
    record, plan = run.frozen_plan()
    if plan is None:
        return record
    verified = verify_ranges(run)
    assert verified is not None
    advance(run, record, plan, *verified)
    commit_group_offsets(run)
    closed = run.record()
    assert closed is not None
    return closed


def advance(
    run: RunContext,
    record: RunRecord,
    plan: BatchPlan,
    table_commit: TableCommit,
    verified: tuple[VerifiedRange, ...],
) -> None:
    """Head, coverage and the records of every run that executes the plan, in one swap.

    The replay of a closed run moves no position: only its record learns the new version.
    """

    def move(state: LedgerState) -> LedgerState:
        head = state.head
        if record.is_open:
            head = advance_head(head, plan, table_commit)
        rows_are_there = (
            i.closed(f"verified after all by run {run.run_id}", now())
            for i in state.incidents_of_plan(plan.plan_id)
        )
        latest = state.runs.get(record.run_id, record)
        moved = replace(state.with_run(latest), head=head).with_incidents_closed(rows_are_there)
        return moved.with_plan_closed(
            plan.plan_id,
            status="done",
            table_commit=table_commit,
            verified=verified,
            updated_at=now(),
        )

    reach("advance:moving")
    run.ledger.update(move)
    reach("advance:advanced")


def commit_group_offsets(run: RunContext) -> None:
    """Commit the head's next offsets for a consumer group; a courtesy, so it never fails a run."""
    group = run.stream.kafka.commit_group
    if group is None:
        return
    head = run.ledger.read().head
    try:
        run.kafka.commit_group(group, {p.topic_partition: p.next_offset for p in head.positions})
    except Exception as error:
        log.warning("group %s was not told: %s", group, error)
    reach("advance:told_group")
