"""Step 1: settle what an earlier run left open, then propose the ranges of this one."""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import StreamBusy
from tideline.failpoints import reach
from tideline.ledger.state import LedgerState
from tideline.model.incident import Incident
from tideline.model.plan import BatchPlan
from tideline.model.run import RunRecord
from tideline.pipeline.advance_offsets import advance, commit_group_offsets
from tideline.pipeline.context import RunContext, log, now
from tideline.pipeline.deciding import settle_partially
from tideline.pipeline.halting import blocked_by, triage_incidents
from tideline.pipeline.landing import foreign_changes, proven_commit, verified_after_all
from tideline.pipeline.observing import look, plan_obstacles


def plan_offset_ranges(run: RunContext) -> RunRecord:
    """The run's record: its frozen plan if there is one, otherwise a new proposal.

    Raises:
        BadInput: The stream asks for what the cluster does not have.
        ServiceAway: Cluster, table or ledger cannot be asked.
    """
    known = run.record()
    if known is not None and known.status != "proposed":
        return known
    left_open = _settle_open_plan(run) if run.request.lane == "live" else None
    return left_open or propose(run)


def propose(run: RunContext) -> RunRecord:
    """Look, and store a proposal; first positions of new partitions go with it (R10).

    Raises:
        StreamBusy: The head moved meanwhile.
    """
    state = run.ledger.read()
    left_open = triage_incidents(run, state.live_incidents()).left_open
    found = look(run, state.head, blocked_by(left_open, state.head))
    known = state.runs.get(run.run_id)
    told = known.notices if known is not None else ()
    notices = (*told, *(n for n in found.notices if n not in told))
    for notice in found.notices:
        if notice not in told:
            log.warning("%s", notice)
    record = RunRecord(
        run_id=run.run_id,
        lane=run.request.lane,
        status="proposed",
        request_digest=run.request.digest,
        updated_at=now(),
        proposal=found.proposal,
        notices=notices,
        request=run.request,
    )

    def store(latest: LedgerState) -> LedgerState:
        if run.request.lane == "backfill" and found.head == state.head:
            return latest.with_run(record)  # the live lane may move meanwhile
        if latest.head != state.head:
            raise StreamBusy("the head moved while this run was planned; run again")
        kept = latest.without_proposals(run.request.lane, but=run.run_id)
        return replace(kept.with_run(record), head=found.head)

    reach("plan:proposing")
    run.ledger.update(store)
    reach("plan:proposed")
    return record


def _settle_open_plan(run: RunContext) -> RunRecord | None:
    """R3: at most one live plan is open; whoever comes next settles it.

    Returns:
        This run's record if it has to finish the open plan, None if the way is free.
    """
    left_open = run.ledger.read().open_live_run()
    if left_open is None or left_open.run_id == run.run_id:
        return None
    plan = left_open.plan
    assert plan is not None
    log.info("run %s left plan %s open", left_open.run_id, plan.plan_id)
    held = run.ledger.read().incidents_of_plan(plan.plan_id)
    table_commit = proven_commit(run, left_open)
    verified = None
    if table_commit is not None and not foreign_changes(run, plan)[1]:
        verified = verified_after_all(run, left_open, table_commit, held)
    if held and verified is None:
        return _meet_halted_plan(run, plan, held)
    if table_commit is not None:
        if verified is None:
            return _finish(run, left_open, plan)  # verify_ranges says what is wrong
        log.info("its rows are in the table: verified, nothing is read again")
        advance(run, left_open, plan, table_commit, verified)
        commit_group_offsets(run)
        run.settled = run.ledger.find_run(left_open.run_id)
        return None
    gone = plan_obstacles(run, plan)
    if gone:
        log.warning("it can no longer be read and is superseded: %s", "; ".join(map(str, gone)))
        with run.ledger.lease("writer"):  # nobody is still writing it
            run.ledger.update(
                lambda state: state.with_plan_closed(
                    plan.plan_id, status="superseded", superseded_by=run.run_id, updated_at=now()
                )
            )
        reach("plan:superseded")
        return None
    return _finish(run, left_open, plan)


def _meet_halted_plan(
    run: RunContext, plan: BatchPlan, held: tuple[Incident, ...]
) -> RunRecord | None:
    """R8: either this run attaches to the halted plan, or it goes on with what is healthy."""
    record = _finish(run, run.ledger.read().runs[plan.run_id], plan)
    outlook = triage_incidents(run, held)
    if outlook.halting or outlook.asking or not outlook.left_open:
        return record
    settle_partially(run, record, held)
    return None


def _finish(run: RunContext, left_open: RunRecord, plan: BatchPlan) -> RunRecord:
    """This run executes the open plan instead of one of its own (R3)."""
    log.info("this run finishes it")
    record = RunRecord(
        run_id=run.run_id,
        lane=run.request.lane,
        status="planned",
        request_digest=run.request.digest,
        updated_at=now(),
        plan=plan,
        request=run.request,
        finishes=left_open.run_id,
        evidence=left_open.evidence,
    )
    run.ledger.update(lambda state: state.with_run(record))
    reach("plan:finishing")
    return record
