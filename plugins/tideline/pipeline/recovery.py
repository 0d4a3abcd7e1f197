"""What an earlier run left open, before this run plans (R3, R8).

At most one live plan is open. Whoever comes next deals with it:

    its rows are in the table and verify         close it; nothing is read again
    its rows are there and do not verify         this run finishes it, and its checks say why
    incidents keep it from being verified        attach to it, or close its healthy part
    Kafka cannot serve it, some rows are left    this run finishes it: they are decided about
    Kafka can no longer serve it                 mark it superseded
    otherwise                                    this run finishes it
"""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import StreamBusy
from tideline.failpoints import reach
from tideline.landing.closing import close_plan, commit_group_offsets
from tideline.landing.context import RunContext, log, now
from tideline.landing.halting import open_and_halt, open_incidents, triage_incidents
from tideline.landing.proof import (
    changes_after_read,
    count_plan_rows,
    find_plan_commit,
    foreign_changes,
    obstacles_to,
    proven_commit,
    verified_after_all,
)
from tideline.landing.table_commit import fence_older_attempts
from tideline.ledger.state import LedgerState
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.plan import BatchPlan, VerifiedRange
from tideline.model.run import RunRecord
from tideline.pipeline.decisions import take_decided_table
from tideline.pipeline.proposing import propose
from tideline.rules.advance import advance_head, count_landed, with_planned_ends
from tideline.rules.replay import unverified_rows_stand
from tideline.rules.verification import gap_findings


def replan(
    run: RunContext, state: LedgerState, earlier: RunRecord | None
) -> tuple[LedgerState, RunRecord]:
    """This run's record, made anew: what others left open comes first, then a proposal.

    Every step up to the freezing may have to: a live proposal of another run deletes this one's.

    Args:
        earlier: This run's record as the caller found it; None if there was none.

    Returns:
        The ledger as it was written, and the record: a proposal, or the open plan that this run
        finishes.

    Raises:
        ServiceAway: Cluster, table or ledger cannot be asked.
    """
    return propose(run, recover(run, state), earlier)


def recover(run: RunContext, state: LedgerState) -> LedgerState:
    """Deal with the open plan of another live run.

    Returns:
        The ledger without that plan in the way; or with this run's record, if it finishes it.

    Raises:
        ServiceAway: Cluster, table or ledger cannot be asked.
        StreamBusy: Another attempt has closed that plan meanwhile.
    """
    if run.request.lane == "live" and state.orphans():
        state = run.ledger.update(lambda latest: latest.without_orphans(now()))
    left_open = state.open_live_run() if run.request.lane == "live" else None
    if left_open is None or left_open.run_id == run.run_id:
        return state
    plan = left_open.plan
    assert plan is not None
    log.info("run %s left plan %s open", left_open.run_id, plan.plan_id)
    held = state.incidents_of_plan(plan.plan_id)
    commit = proven_commit(run, left_open, state.head)
    verified = None
    if commit is not None and not foreign_changes(run, state, plan)[1]:
        verified = verified_after_all(run, state, left_open, commit, held)
    if commit is not None and verified is not None:
        log.info("the plan's rows are in the table and verified: nothing is read again")
        state = close_plan(run, state, left_open, plan, commit, verified)
        commit_group_offsets(run)
        run.recovered = run.ledger.find_run(left_open.run_id, state)
        return state
    if held:
        return _meet_halted_plan(run, state, left_open, plan, held)
    is_rest = commit is None and _rows_are_left(run, state, left_open)
    is_read = commit is not None or is_rest
    gone = () if is_read else obstacles_to(run, plan.on_cluster)
    if gone:
        log.warning(
            "that plan can no longer be read and is superseded: %s", "; ".join(map(str, gone))
        )
        return _supersede(run, left_open, plan)
    return _finish(run, left_open, plan)


def _rows_are_left(run: RunContext, state: LedgerState, record: RunRecord) -> bool:
    """Whether unverified rows stand of a plan that the table no longer proves: they are decided."""
    plan = record.plan
    assert plan is not None
    newest = run.table.observe().version
    if newest is None or find_plan_commit(run, record, state.head) is None:
        return False
    return unverified_rows_stand(state.head, run.table.landed(plan.ranges, newest))


def head_after_recovery(run: RunContext, state: LedgerState) -> Head:
    """The head as it will be once an open plan is recovered whose rows the table proves.

    Rows that are in the table are never reported lost, also by those who only look.
    """
    left_open = state.open_live_run()
    if left_open is None or left_open.plan is None:
        return state.head
    if state.incidents_of_plan(left_open.plan.plan_id):
        return state.head
    commit = proven_commit(run, left_open, state.head)
    return state.head if commit is None else advance_head(state.head, left_open.plan, commit)


def close_partially(
    run: RunContext, state: LedgerState, record: RunRecord, held: tuple[Incident, ...]
) -> LedgerState:
    """Close a halted plan: healthy ranges are verified and advanced, the others wait to be decided.

    Runs that execute this plan become superseded; a run that came upon it plans again.

    Args:
        record: Of the run that executes the plan: its own, or one that set out to finish it.
        held: The plan's open incidents.
    """
    plan = record.plan
    assert plan is not None
    owner = run.ledger.find_run(plan.run_id, state) or record
    commit = find_plan_commit(run, owner, state.head)
    # The head must not take a version for known that nobody has looked at; and rows that nobody
    # verifies here would stay, if no plan came back for their ranges.
    if foreign := foreign_changes(run, state, plan)[1]:
        open_and_halt(run, state, foreign)
    healthy = [
        r for r in plan.ranges if not any(i.finding.concerns(r.topic_partition) for i in held)
    ]
    good: tuple[VerifiedRange, ...] = ()
    if commit is not None and healthy:
        counted = count_plan_rows(run, owner, healthy, state.head, state.erasing)
        changed = changes_after_read(run, replace(plan.on_cluster, ranges=tuple(healthy)))
        good = tuple(
            v
            for v in counted.verified
            if not any(f.concerns(v.planned.topic_partition) for f in changed)
        )
        findings = (*gap_findings(counted.mismatches, plan), *changed)
        held = (*held, *open_incidents(run, state, findings, plan))
    ids = ", ".join(i.incident_id for i in held)
    log.warning(
        "plan %s is closed with %d of %d ranges verified; %s: the rest",
        plan.plan_id,
        len(good),
        len(plan.ranges),
        ids,
    )

    def close(latest: LedgerState) -> LedgerState:
        head = latest.head
        if commit is not None and good:
            latest.refuse_recounted(state, (v.planned for v in good))
            part = replace(plan, ranges=tuple(v.planned for v in good))
            head = advance_head(head, part, commit)
            head = count_landed(head, part, commit, good, now().date())
        runs = {k: r for k, r in latest.runs.items() if k != run.run_id or r.finishes is None}
        return replace(latest.with_head(head), runs=runs).with_plan_closed(
            plan.plan_id,
            status="superseded",
            superseded_by=ids,
            table_commit=commit,
            verified=good,
            updated_at=now(),
        )

    closed = run.ledger.update(close)
    reach("recover:closed_partly")
    return closed


def _meet_halted_plan(
    run: RunContext,
    state: LedgerState,
    left_open: RunRecord,
    plan: BatchPlan,
    held: tuple[Incident, ...],
) -> LedgerState:
    """R8: either this run attaches to the halted plan, or it goes on with what is healthy."""
    state = _finish(run, left_open, plan)
    triage = triage_incidents(run, held)
    if triage.halting or triage.asking or not triage.left_open:
        return state
    state = take_decided_table(run, state, plan)  # whoever closes the plan has to know the table
    return close_partially(run, state, state.runs[run.run_id], held)


def _supersede(run: RunContext, left_open: RunRecord, plan: BatchPlan) -> LedgerState:
    """Nothing of the plan can be read any more: close it, so that this run plans anew.

    An attempt that stands still has perhaps read it. It must not commit once the loss is recorded;
    and if it was quicker, nothing is lost. No head moved over what the plan verified before its
    rows went: its record does not claim it.

    Raises:
        StreamBusy: Such an attempt has landed the plan meanwhile.
    """
    take_decided_table(run, run.ledger.read(), plan)  # else the fence would halt with it again
    with run.ledger.lease("writer"):  # nobody else begins to write it
        fence_older_attempts(run, plan)
        if _rows_are_left(run, run.ledger.read(), left_open):
            raise StreamBusy(f"run {left_open.run_id} has landed its plan meanwhile; run again")
        state = run.ledger.update(
            # what it was about to read was there once: if the log was cut, that is found next
            lambda latest: latest.with_head(
                with_planned_ends(latest.head, plan.ranges)
            ).with_plan_closed(
                plan.plan_id,
                status="superseded",
                superseded_by=run.run_id,
                verified=(),  # nothing of it is there any more
                table_commit=None,
                updated_at=now(),
            )
        )
    reach("plan:superseded")
    return state


def _finish(run: RunContext, left_open: RunRecord, plan: BatchPlan) -> LedgerState:
    """This run executes the open plan instead of one of its own (R3)."""
    log.info("this run finishes that plan")
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
        begun_at=now(),
    )

    def attach(latest: LedgerState) -> LedgerState:
        owner = latest.runs.get(left_open.run_id)
        if owner is None or not owner.is_open:
            raise StreamBusy(f"run {left_open.run_id} was closed meanwhile; run again")
        return latest.with_run(record)

    state = run.ledger.update(attach)
    reach("plan:finishing")
    return state
