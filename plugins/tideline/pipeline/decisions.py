"""Carry out decisions about plans and tables that are there already (R6, R8, R9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from tideline.errors import StreamBusy, VerificationFailed
from tideline.failpoints import reach
from tideline.landing.attempts import begin_attempt
from tideline.landing.context import RunContext, log, now
from tideline.landing.halting import open_incidents, triage_incidents
from tideline.landing.proof import (
    changes_after_read,
    count_plan_rows,
    find_plan_commit,
    foreign_changes,
)
from tideline.landing.table_commit import remove
from tideline.ledger.state import LedgerState
from tideline.model.head import Head, KnownCommit
from tideline.model.incident import Finding, Incident
from tideline.model.observation import Observation, TableObservation
from tideline.model.offsets import (
    NO_END,
    CoordinateRange,
    OffsetRange,
    PartitionIdentity,
    TopicPartition,
)
from tideline.model.places import Places
from tideline.model.plan import BatchPlan, ClusterRanges
from tideline.model.run import RunRecord
from tideline.model.verdicts import VERIFIED_FIRST
from tideline.model.wording import first_few
from tideline.pipeline.taking_over import recover_from_table
from tideline.rules.advance import advance_head
from tideline.rules.audit import audit
from tideline.rules.foreign_changes import OLDER_LEDGER
from tideline.rules.resolution import accept_gap, take_table
from tideline.rules.verification import sound_parts, still_missing, verified_again
from tideline.table.schema import removal_id

_BEGIN_GENERATIONS = ("truncation", "topic_recreated", "cluster_changed")


def rows_removed_by_others(run: RunContext, head: Head, version: int | None) -> Places:
    """Verified offsets that a changed table does not hold, in the version that was observed.

    A later version is not looked at: what somebody removed there is nobody's decision yet.

    Args:
        head: Read before that observation.
        version: The table's version then; None if the table is gone.

    Raises:
        VerificationFailed: A data file cannot be read: nobody approved the loss of its rows.
    """
    stored = () if version is None else run.table.stored(version)
    result = audit(head, run.ledger.closed_runs(), (), stored, run.ledger.read().erasing)
    if result.damaged:
        raise VerificationFailed(
            f"table {run.stream.table.uri}, version {version}: data files cannot be read:"
            f" {first_few(result.damaged)}. Nothing was approved. Restore them; or remove them"
            " from the table (delete them, then DeltaTable.repair() of deltalake): that is a"
            " finding of its own",
            damaged=[file.path for file in result.damaged],
        )
    missing = (
        (
            PartitionIdentity(flaw.topic_id, flaw.generation, flaw.partition),
            OffsetRange(flaw.start_offset, flaw.end_offset),
        )
        for flaw in result.missing
    )
    return Places.of_pieces(missing) & head.coverage


def skip_landed_generations(
    run: RunContext, head: Head, observation: Observation, finding: Finding
) -> Head:
    """The head that gives no generation whose rows the table holds: an older ledger forgot them.

    Args:
        finding: Where its decision may begin a generation; for any other the head stays.

    Raises:
        ServiceAway: The table cannot be read.
    """
    version = observation.table.version
    if version is None or finding.kind not in _BEGIN_GENERATIONS:
        return head
    logs = {
        (topic.topic, topic.topic_id, seen.partition)
        for topic in observation.topics
        for seen in topic.partitions
        if topic.topic_id and finding.concerns(TopicPartition(topic.topic, seen.partition))
    }
    while True:
        wanted = [
            CoordinateRange(topic, log.topic_id, head.next_generation(log), number, 0, NO_END)
            for topic, topic_id, number in sorted(logs)
            for log in (PartitionIdentity(topic_id, 0, number),)
        ]
        taken = run.table.landed(wanted, version)
        if not taken:
            return head
        head = head.having_given(taken)


def accept_gaps(run: RunContext, incidents: tuple[Incident, ...]) -> LedgerState:
    """Accept missing offsets of a landed plan: the rows that are there can be verified then."""

    def accept(state: LedgerState) -> LedgerState:
        head, closed = state.decided_alike(incidents).head, []
        for incident in incidents:
            effect = accept_gap(head, recount_gap(run, incident))
            head = effect.head
            closed.append(incident.closed(effect.outcome, now()))
        return _resolved(state, run.run_id, closed).with_head(head)

    state = run.ledger.update(accept)
    reach("resolve:accepted")
    for incident in incidents:
        log.warning("%s: its decision was carried out", incident.incident_id)
    return state


def recount_gap(run: RunContext, incident: Incident) -> Incident:
    """A gap's incident as it is when its decision is carried out: a backfill may have landed rows.

    Args:
        incident: Of a class of gaps.
    """
    version = run.table.observe().version
    if version is None or not incident.unverified:
        return incident
    return still_missing(incident, run.table.landed(incident.unverified, version))


def update_table_incidents(
    run: RunContext, state: LedgerState, plan: BatchPlan | None = None
) -> tuple[LedgerState, tuple[Incident, ...]]:
    """Open incidents about the table as it is now; closed where it is as it should be again.

    Args:
        plan: The run's own, which may know the table before the head does.
    """
    known = state.incidents_of_table()
    if not known:
        return state, ()
    if findings := foreign_changes(run, state, plan)[1]:
        still_open = open_incidents(run, state, findings)  # another change is another incident
        return run.ledger.read(), still_open
    gone = tuple(i.closed(f"no longer found by run {run.run_id}", now()) for i in known)
    return run.ledger.update(lambda latest: latest.with_incidents_closed(gone)), ()


def take_decided_table(
    run: RunContext, state: LedgerState, plan: BatchPlan | None = None
) -> LedgerState:
    """Carry out an approved change of the table that a frozen plan ran into.

    The table is held against what was approved once more: if it has changed since, nothing is
    carried out, and the next check opens an incident about that (R9).
    """
    state, still_open = update_table_incidents(run, state, plan)
    for incident in triage_incidents(run, still_open).decided:
        table, findings = foreign_changes(run, state, plan)
        if incident.finding.shown not in {f.shown for f in findings}:
            continue
        if incident.finding.detail == OLDER_LEDGER:
            state = take_over(run, state, incident, table)
            continue
        removed = rows_removed_by_others(run, state.head, table.version)
        state = run.ledger.update(partial(_take, run.run_id, incident, table, removed, plan))
        reach("resolve:took_table")
    return state


def take_over(
    run: RunContext, state: LedgerState, incident: Incident, table: TableObservation
) -> LedgerState:
    """Carry out the approval of a table that is newer than the ledger, in one swap.

    Args:
        state: What the decision was made on.
        incident: As it was approved.
        table: An observation that shows this very finding.

    Raises:
        StreamBusy: The ledger, or the decision, has changed meanwhile.
        ServiceAway: The cluster or the table cannot be asked.
        VerificationFailed: A data file cannot be read.
    """
    removed = rows_removed_by_others(run, state.head, table.version)
    found = recover_from_table(run, state, incident, table, removed)
    closed = incident.closed(f"took over the table's commits; {found}", now())

    def swap(latest: LedgerState) -> LedgerState:
        if latest.head != state.head:
            raise StreamBusy("the head moved while the table was taken over; run again")
        after = _resolved(latest.decided_alike([incident]), run.run_id, [closed])
        planned = (r for r in after.runs.values() if r.status == "proposed")
        # what was proposed before goes by what was known before
        for record in (*(replace(r, proposal=None) for r in planned), *found.records):
            after = after.with_run(record)
        after = after.with_undecoded(found.written).with_erasures_told(found.erased)
        return after.with_head(found.head).without_verifications().with_next_token(table.token or 0)

    taken = run.ledger.update(swap)
    reach("resolve:took_over")
    log.warning("%s: %s", closed.incident_id, closed.outcome)
    return taken


def _take(
    run_id: str,
    incident: Incident,
    table: TableObservation,
    removed: Places,
    plan: BatchPlan | None,
    state: LedgerState,
) -> LedgerState:
    known = state.decided_alike([incident]).head
    planned_id = plan.table_id if plan is not None else None
    effect = take_table(known, table, incident.finding, removed, planned_id)
    closed = incident.closed(effect.outcome, now())
    return _resolved(state, run_id, [closed]).with_head(effect.head).without_verifications()


@dataclass(frozen=True, slots=True)
class RowsDecided:
    """What became of an incident's unverified rows.

    Args:
        removed_in_version: The table version that removed them; None where none were.
        amended: The closed record of the plan's run, with ranges that verify after all.
    """

    head: Head
    removed_in_version: int | None = None
    amended: RunRecord | None = None


def decide_unverified_rows(
    run: RunContext,
    state: LedgerState,
    head: Head,
    incident: Incident,
    amended: Mapping[str, RunRecord],
) -> RowsDecided:
    """What a decision does with an incident's unverified rows (R6).

    An accepted gap leaves good rows: where they verify now, the head moves over them, so that
    nothing that is in the table has to be read again. Of a range that does not verify as a whole,
    because more is missing by now, the parts that do are covered: the log may have expired, and
    then no plan would come back for them. What the cluster refused to answer about counts as well
    if it answers by now, and every row verifies: the records may have expired since. Every other
    decision removes the rows.

    Args:
        state: The ledger that the decision was made on.
        head: As decisions left it so far.
        incident: With a decision.
        amended: Records that earlier decisions of this run have amended, by run id.
    """
    plan_run = str(incident.plan_run_id)
    record = amended.get(plan_run) or run.ledger.find_run(plan_run, state)
    plan = record.plan if record is not None else None
    is_of_before = plan is None or plan.plan_id != incident.plan_id
    if is_of_before:  # the run was asked for again since, and has another plan
        record = run.ledger.closed_plan(plan_run, str(incident.plan_id))
        plan = record.plan if record is not None else None
    if record is None or plan is None:
        return RowsDecided(head)
    landed = find_plan_commit(run, record, state.head)
    newest = run.table.observe().version
    if landed is None or newest is None:
        return RowsDecided(head)
    if incident.finding.kind not in VERIFIED_FIRST:
        return _without_unverified(run, state, head, plan, incident)
    counted = count_plan_rows(run, record, incident.unverified, head, state.erasing)
    if incident.finding.kind == "unknown" and counted.mismatches:
        return _without_unverified(run, state, head, plan, incident)
    parts = sound_parts(counted.mismatches, head.coverage)
    good = (*counted.verified, *parts)
    asked = ClusterRanges(plan.cluster_id, tuple(v.planned for v in good))
    if good and changes_after_read(run, asked):  # nothing will ever verify them
        return _without_unverified(run, state, head, plan, incident)
    if not good:  # their range is planned anew, which replaces them
        return RowsDecided(head)
    verified = verified_again(record.verified, good)  # a closed run may have been verified before
    learns = replace(record, verified=verified, updated_at=now())
    whole = replace(plan, ranges=tuple(v.planned for v in counted.verified))
    head = advance_head(head, whole, landed) if whole.ranges else head
    pieces = replace(plan, lane="backfill", ranges=tuple(v.planned for v in parts))
    head = advance_head(head, pieces, landed) if parts else head  # the next plan goes around them
    return RowsDecided(head, amended=None if is_of_before else learns)


def _without_unverified(
    run: RunContext, state: LedgerState, head: Head, plan: BatchPlan, incident: Incident
) -> RowsDecided:
    removed = _remove_unverified(run, state.control.ledger_id, plan, incident)
    if removed is None:
        return RowsDecided(head)
    return RowsDecided(head.with_commits(removed), removed.version)


def _remove_unverified(
    run: RunContext, ledger_id: str, plan: BatchPlan, incident: Incident
) -> KnownCommit | None:
    """Remove rows at ranges that no verified coverage holds; None where there are none."""
    newest, ranges = run.table.observe().version, incident.unverified
    if newest is None or not run.table.landed(ranges, newest):
        return None
    with run.ledger.lease("writer"):
        attempt = begin_attempt(run, ledger_id, removes=incident.incident_id)
        # Read under the lease: a backfill may have verified part of the ranges by now.
        pieces = attempt.state.head.coverage.rest(ranges)
        if not pieces:
            return None
        change = attempt.change(removal_id(plan.plan_id), pieces)
        removed = remove(run, change, after_version=newest)
    reach("resolve:removed")
    log.warning("unverified rows of plan %s are removed", plan.plan_id)
    return removed


def _resolved(state: LedgerState, run_id: str, closed: list[Incident]) -> LedgerState:
    """The state with incidents closed, and noted in the run's record where it is open."""
    after = state.with_incidents_closed(closed)
    record = after.runs.get(run_id)
    if record is None:
        return after
    return after.with_run(replace(record, resolved=(*record.resolved, *closed)))
