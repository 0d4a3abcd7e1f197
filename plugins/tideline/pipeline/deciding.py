"""Carry out decisions about plans that have landed but could not be verified (R6, R8, R9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tideline.errors import StreamBusy
from tideline.failpoints import reach
from tideline.ledger.state import LedgerState
from tideline.model.coverage import Coverage, subtract
from tideline.model.head import Head
from tideline.model.incident import Incident
from tideline.model.offsets import OffsetRange, PartitionIdentity
from tideline.model.plan import BatchPlan, PlannedRange
from tideline.model.run import RunRecord
from tideline.model.verification import VerifiedRange
from tideline.operations.audit import ledger_against_table
from tideline.pipeline.context import RunContext, log, now
from tideline.pipeline.halting import open_incidents, triage_incidents
from tideline.pipeline.landing import count_rows, find_commit
from tideline.pipeline.observing import check_after_read
from tideline.pipeline.writing import begin_attempt, commit, spark_job
from tideline.rules.advance import advance_head
from tideline.rules.resolution import Effect, excuse, take_table
from tideline.rules.table_watch import table_findings
from tideline.rules.verification import gap_findings

GAPS = ("log_hole", "unexplained_gap")


def execute_on_plan(run: RunContext, incidents: tuple[Incident, ...]) -> None:
    """Accept missing offsets of a landed plan: the rows that are there can be verified then.

    Raises:
        StreamBusy: Somebody else has closed an incident meanwhile.
    """

    def accept(state: LedgerState) -> LedgerState:
        head, closed = state.head, []
        for incident in incidents:
            if incident.incident_id not in {i.incident_id for i in state.control.incidents}:
                raise StreamBusy(f"{incident.incident_id} was closed meanwhile; run again")
            effect = excuse(head, incident)
            head = effect.head
            closed.append(incident.closed(effect.outcome, now()))
        after = replace(state.with_incidents_closed(closed), head=head)
        record = after.runs.get(run.run_id)
        if record is None:
            return after
        return after.with_run(replace(record, resolved=(*record.resolved, *closed)))

    run.ledger.update(accept)
    reach("resolve:accepted")
    for incident in incidents:
        log.warning("%s: its decision was carried out", incident.incident_id)


def refreshed_table_incidents(run: RunContext) -> tuple[Incident, ...]:
    """Open incidents about the table; closed here where the table is as it should be again."""
    known = run.ledger.read().incidents_of_table()
    if not known:
        return ()
    head = run.ledger.read().head
    table = run.table.observe(head.table_version)
    ledger_id = run.ledger.read().control.ledger_id
    found = table_findings(head.table_id, table, run.stream.stream, ledger_id, head.table_version)
    if any(found):
        return known
    gone = tuple(i.closed(f"no longer found by run {run.run_id}", now()) for i in known)
    run.ledger.update(lambda state: state.with_incidents_closed(gone))
    return ()


def resolve_table(run: RunContext) -> None:
    """An approved change of the table that a frozen plan ran into; planning has not seen it."""
    for incident in triage_incidents(run, refreshed_table_incidents(run)).decided:
        table = run.table.observe()
        removed = rows_removed_by_others(run, incident)
        effect = take_table(run.ledger.read().head, table, removed)
        closed = incident.closed(effect.outcome, now())

        def take(
            state: LedgerState, closed: Incident = closed, effect: Effect = effect
        ) -> LedgerState:
            head = replace(
                state.head,
                table_id=effect.head.table_id,
                table_version=effect.head.table_version,
                accepted_loss=effect.head.accepted_loss,
            )
            after = replace(state.with_incidents_closed([closed]), head=head)
            record = after.runs.get(run.run_id)
            if record is None:
                return after
            return after.with_run(replace(record, resolved=(*record.resolved, closed)))

        run.ledger.update(take)
        reach("resolve:took_table")


def rows_removed_by_others(run: RunContext, incident: Incident) -> tuple[Coverage, ...]:
    """Verified offsets that a changed table no longer holds."""
    if incident.finding.kind != "table_changed":
        return ()
    return tuple(
        Coverage(
            PartitionIdentity(flaw.topic_id, flaw.generation, flaw.partition),
            (OffsetRange(flaw.start_offset, flaw.end_offset),),
        )
        for flaw in ledger_against_table(run).missing
    )


def settle_partially(run: RunContext, record: RunRecord, held: tuple[Incident, ...]) -> None:
    """Close a halted plan: its healthy ranges are verified and advanced, the others left to decide.

    Whoever executes the plan ends as superseded; a run that came upon it is planned anew.

    The record is of the run that executes the plan: its own, or one that set out to finish it;
    held are the plan's open incidents.
    """
    plan = record.plan
    assert plan is not None
    owner = run.ledger.find_run(plan.run_id) or record
    table_commit = find_commit(run, owner)
    healthy = [
        r for r in plan.ranges if not any(i.finding.concerns(r.topic_partition) for i in held)
    ]
    good: tuple[VerifiedRange, ...] = ()
    if table_commit is not None and healthy:
        head = run.ledger.read().head
        good, bad, _ = count_rows(run, owner, healthy, table_commit.version, head)
        changed = check_after_read(run, replace(plan, ranges=tuple(healthy)))
        good = tuple(
            v for v in good if not any(f.concerns(v.planned.topic_partition) for f in changed)
        )
        held = (*held, *open_incidents(run, (*gap_findings(bad, plan), *changed), plan))
    ids = ", ".join(i.incident_id for i in held)
    log.warning(
        "plan %s is closed with %d of %d ranges verified; %s: the rest",
        plan.plan_id,
        len(good),
        len(plan.ranges),
        ids,
    )

    def close(state: LedgerState) -> LedgerState:
        head = state.head
        if table_commit is not None and good:
            part = replace(plan, ranges=tuple(v.planned for v in good))
            head = advance_head(head, part, table_commit)
        runs = {k: r for k, r in state.runs.items() if k != run.run_id or r.finishes is None}
        return replace(state, head=head, runs=runs).with_plan_closed(
            plan.plan_id,
            status="superseded",
            superseded_by=ids,
            table_commit=table_commit,
            verified=good,
            updated_at=now(),
        )

    run.ledger.update(close)
    reach("resolve:settled")


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of an incident's unverified rows.

    Args:
        removed_in_version: The table version that removed them; None where none were.
        amended: The closed record of the plan's run, with ranges that verify after all.
    """

    head: Head
    removed_in_version: int | None = None
    amended: RunRecord | None = None


def settle_doubtful(
    run: RunContext, head: Head, incident: Incident, amended: Mapping[str, RunRecord]
) -> Settled:
    """What a decision does with an incident's unverified rows (R6).

    An accepted gap leaves good rows: where they verify now, the head moves over them, so that
    nothing that is in the table has to be read again. Every other decision removes them.

    Args:
        run: This run.
        head: As decisions left it so far.
        incident: With a decision.
        amended: Records that earlier decisions of this run have amended, by run id.
    """
    known = run.ledger.find_run(str(incident.plan_run_id))
    record = amended.get(str(incident.plan_run_id), known)
    plan = record.plan if record is not None else None
    if record is None or plan is None:
        return Settled(head)
    table_commit = find_commit(run, record)
    newest = run.table.observe().version
    if table_commit is None or newest is None:
        return Settled(head)
    if incident.finding.kind in GAPS:
        good, _, _ = count_rows(run, record, incident.unverified, newest, head)
        part = replace(plan, ranges=tuple(v.planned for v in good))
        if not good or check_after_read(run, part):
            return Settled(head)
        learns = replace(record, verified=(*record.verified, *good), updated_at=now())
        return Settled(advance_head(head, part, table_commit), amended=learns)
    return Settled(head, remove_unverified(run, plan, incident.unverified))


def remove_unverified(
    run: RunContext, plan: BatchPlan, ranges: tuple[PlannedRange, ...]
) -> int | None:
    """Remove rows at ranges that no verified coverage holds; the version that did it."""
    covered = {c.identity: c.intervals for c in run.ledger.read().head.coverage}
    pieces = tuple(
        replace(planned, start_offset=left.start_offset, end_offset=left.end_offset)
        for planned in ranges
        for left in subtract([planned.offsets], covered.get(planned.identity, ()))
    )
    newest = run.table.observe().version
    if not pieces or newest is None or not run.table.landed(ranges, newest):
        return None
    with run.ledger.lease("writer"):
        attempt = begin_attempt(run)
        job = spark_job(run, attempt, "remove", plan, pieces)
        removed = commit(run, job, after_version=newest)
    reach("resolve:removed")
    log.warning("unverified rows of plan %s are removed", plan.plan_id)
    return removed.version
