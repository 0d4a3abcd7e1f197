"""Close a verified plan: the head moves over it, and its consumer group is told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tideline.errors import StreamBusy
from tideline.failpoints import reach
from tideline.landing.context import RunContext, log, now
from tideline.ledger.state import LedgerState
from tideline.model.offsets import PartitionIdentity
from tideline.model.plan import BatchPlan, LandedRange, VerifiedRange
from tideline.model.run import RunRecord, TableCommit
from tideline.model.timings import Timings
from tideline.rules.advance import add_commit, advance_head, count_landed, late_rows
from tideline.rules.positions import only_followed
from tideline.rules.replay import unverified_rows_stand


def close_plan(
    run: RunContext,
    counted: LedgerState,
    record: RunRecord,
    plan: BatchPlan,
    commit: TableCommit,
    verified: tuple[VerifiedRange, ...],
) -> LedgerState:
    """Head, coverage and the records of every run that executes the plan, in one swap.

    The replay of a closed run moves no position: only its record learns the new version.

    Args:
        counted: The ledger by which the rows were counted, or the count was read.
        record: Of the run that executes the plan: this one, or one that it recovers.
        plan: The frozen plan.
        commit: The commit that holds its rows.
        verified: Its ranges, as that commit was verified.

    Raises:
        StreamBusy: The head is neither at the plan's start nor past its end, somebody has closed
            the run meanwhile, or rows were removed.
    """

    def move(state: LedgerState) -> LedgerState:
        if _is_closed_so(run, state, record, commit):
            return state  # by this very call, whose answer was lost, or by another attempt
        refuse_closed(state, record)
        state.refuse_recounted(counted, plan.ranges)
        state = state.with_undecoded(late_rows(state.head, verified))
        advance = advance_head if record.is_open else add_commit
        head = advance(state.head, plan, commit)
        if record.is_open:
            head = count_landed(head, plan, commit, verified, now().date())
            names = () if run.stream.catalog is None else head.names  # of a file that has changed
            timings = _timings(record, plan, commit) or head.timings
            head = replace(head, timings=timings, names=names)
        if is_known and not state.incidents_of_plan(plan.plan_id):
            return state
        latest = state.runs.get(record.run_id, record)
        outcome = f"verified after all by run {run.run_id}"
        moved = state.with_run(latest).with_head(head)
        return moved.with_rows_verified(plan.plan_id, outcome, now()).with_plan_closed(
            plan.plan_id, status="done", table_commit=commit, verified=verified, updated_at=now()
        )

    is_known = not record.is_open and (commit, verified) == (record.table_commit, record.verified)
    reach("advance:moving")
    state = run.ledger.update(move)
    reach("advance:advanced")
    return state


def _timings(record: RunRecord, plan: BatchPlan, commit: TableCommit) -> Timings | None:
    """Of a live run that closes; None where an older version began it."""
    if record.lane != "live" or record.begun_at is None or commit.times is None:
        return None
    return Timings(record.run_id, record.begun_at, plan.frozen_at, commit.times, now())


def _is_closed_so(
    run: RunContext, state: LedgerState, record: RunRecord, commit: TableCommit
) -> bool:
    """Whether a run that was open in the snapshot has been closed since, with the same commit."""
    if not record.is_open or record.run_id in state.runs:
        return False
    closed = run.ledger.find_run(record.run_id, state)
    return closed is not None and closed.status == "done" and closed.table_commit == commit


def refuse_closed(state: LedgerState, seen: RunRecord) -> None:
    """Make sure that a run which was open in an earlier snapshot is open still.

    An attempt that was stopped for longer than its lease may wake up after another run has closed
    its plan, and must not open it again.

    Raises:
        StreamBusy: It was closed.
    """
    if seen.is_open and seen.run_id not in state.runs:
        raise StreamBusy(f"run {seen.run_id} was closed meanwhile; nothing moved, run again")


def can_be_given_up(
    run: RunContext, record: RunRecord, landed: Mapping[PartitionIdentity, LandedRange]
) -> bool:
    """Whether a run is an open backfill of which nothing is left to decide.

    It may have landed rows that a decision has removed since; verified rows of others do not
    matter.

    Args:
        record: Its record.
        landed: What the table holds at the plan's coordinates.
    """
    plan = record.plan
    if plan is None or record.lane != "backfill" or not record.is_open:
        return False
    state = run.ledger.read()
    held = state.incidents_of_plan(plan.plan_id)
    return not unverified_rows_stand(state.head, landed) and not held


def give_up_backfill(run: RunContext, record: RunRecord, reasons: list[str]) -> None:
    """Close an open backfill that nobody can read any more, and that nobody lands any more.

    The live lane recovers its own open plans. Nobody else comes upon a backfill's: asked for again,
    the same run is planned anew, from what is left.

    Args:
        run: This run, with the writer's lease.
        record: Its record; it has a plan.
        reasons: What Kafka no longer has.
    """
    plan = record.plan
    assert plan is not None

    def close(state: LedgerState) -> LedgerState:
        refuse_closed(state, record)
        why = f"replay_unavailable: {'; '.join(reasons)}"
        return state.with_plan_closed(
            plan.plan_id,
            status="superseded",
            superseded_by=why,
            verified=(),  # none of its rows is there, or somebody else's run has verified it
            table_commit=None,
            updated_at=now(),
        )

    run.ledger.update(close)
    log.warning("plan %s is closed: run again, the same run makes a new plan", plan.plan_id)


def commit_group_offsets(run: RunContext) -> None:
    """Commit the head's next offsets for a consumer group; best effort, so it never fails a run.

    The head is read here: an attempt that was stopped for a while must not take the group back.
    """
    group = run.stream.kafka.commit_group
    if group is None:
        return
    try:
        followed = only_followed(run.ledger.read().head, run.stream.kafka).positions
        run.kafka.commit_group(group, {p.topic_partition: p.next_offset for p in followed})
    except Exception as error:
        log.warning("group %s was not told: %s", group, error)
    reach("advance:told_group")
