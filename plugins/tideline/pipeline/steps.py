"""Four of the six steps that land; `resolve_reset` and `ingest_ranges` have files of their own.

1. `plan_offset_ranges` settles what an earlier run left open, then proposes this run's ranges.
2. `detect_earliest_reset` holds the ledger against the cluster, and freezes the plan if nothing
   speaks against it.
5. `verify_ranges` reconciles the committed version with the plan, and the log with what was read.
6. `advance_offsets` moves the head by compare-and-swap, then tells others.
"""

from __future__ import annotations

from dataclasses import replace

from tideline.errors import AttemptFenced, BadInput, StreamBusy, VerificationFailed
from tideline.failpoints import reach
from tideline.landing.closing import close_plan, commit_group_offsets, refuse_closed
from tideline.landing.context import RunContext, log, now
from tideline.landing.halting import (
    halt,
    open_and_halt,
    open_incidents,
    relevant_incidents,
    triage_incidents,
)
from tideline.landing.naming import name_tables
from tideline.landing.proof import (
    changes_after_read,
    check_log,
    count_plan_rows,
    foreign_changes,
    look_for_commit,
)
from tideline.ledger.state import LedgerState
from tideline.model.incident import Finding
from tideline.model.plan import BatchPlan, VerifiedRange
from tideline.model.run import PartitionEvidence, RunRecord, TableCommit
from tideline.model.verdicts import GAP_CLASSES
from tideline.model.wording import first_few, how_many
from tideline.pipeline.decisions import accept_gaps
from tideline.pipeline.freezing import freeze_backfill, freeze_live, keep_headroom
from tideline.pipeline.proposing import stable_proposal
from tideline.pipeline.recovery import replan
from tideline.rules.advance import add_commit


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
    if record is None or record.status == "proposed" or record.is_to_replan:
        _, record = replan(run, state, record)
    planned = record.plan or record.proposal
    ranges = planned.ranges if planned is not None else ()
    offsets = sum(len(r.offsets) for r in ranges)
    found = f"{how_many(offsets, 'offset')} of {how_many(len(ranges), 'partition')}"
    log.info("to read: %s", found if ranges else "nothing")
    return record


def detect_earliest_reset(run: RunContext) -> RunRecord:
    """The run's record: frozen (R1), nothing to do, or still proposed where a decision comes first.

    Raises:
        ResetDetected: Something was found that nobody has decided and no policy lets pass; an
            incident is open and no position moved.
        WindowUnavailable: Part of what a backfill asks for has expired.
        ServiceAway: The observations of the cluster did not agree in time.
    """
    state, record = run.snapshot()
    if record is None or record.is_to_replan:  # another run's proposal has replaced this one's
        state, record = replan(run, state, record)
    if record.status != "proposed":
        if record.status == "superseded":
            log.info("run %s was superseded by %s", run.run_id, record.superseded_by)
        _attach(run, state, record)
        return record
    state, proposal, findings = stable_proposal(run, state, record)
    if run.request.lane == "backfill":
        return freeze_backfill(run, state, proposal, findings)
    triage = triage_incidents(run, relevant_incidents(run, state, findings))
    if triage.halting or triage.asking:  # retention goes on while somebody decides
        keep_headroom(run, state.head, proposal)
    if triage.halting:
        halt(run, triage.halting)
    if triage.asking or triage.decided:
        for incident in (*triage.asking, *triage.decided):
            log.warning("resolve_reset is next: %s", incident)
        return record
    if not triage.left_open:
        log.info("no findings")
    return freeze_live(run, state, proposal, triage.left_open)


def _attach(run: RunContext, state: LedgerState, record: RunRecord) -> None:
    """R8: a run that came upon another's halted plan halts as well, and opens nothing new."""
    if record.status != "planned" or record.finishes is None or record.plan is None:
        return
    triage = triage_incidents(run, state.incidents_of_plan(record.plan.plan_id))
    if triage.halting or triage.left_open:
        halt(run, (*triage.halting, *triage.left_open))


def verify_ranges(run: RunContext) -> tuple[TableCommit, tuple[VerifiedRange, ...]] | None:
    """The plan's commit and its ranges with rows and gaps; None where nothing was planned.

    What was verified goes into the run's record, for `advance_offsets`.

    Raises:
        VerificationFailed: There are rows too many.
        AttemptFenced: The table shows no commit of the plan.
        ResetDetected: Offsets are missing without a reason, or the log changed while it was read;
            the position does not move.
        ServiceAway: The cluster cannot say whether it did.
    """
    state, record, plan = run.frozen()
    if plan is None:
        return None
    commit, table = look_for_commit(run, record, state.head)
    if record.is_open or commit is None:
        _halt_if_changed(run, state, plan, table.version)
    if commit is None:
        raise AttemptFenced(
            f"plan {plan.plan_id} has no commit in {run.stream.table.uri}; run ingest_ranges first",
            plan_id=plan.plan_id,
        )
    counted = count_plan_rows(run, record, plan.ranges, state.head, state.erasing, table.version)
    findings, counted = check_log(run, record, commit, counted)
    if findings:
        _keep(run, state, record, counted.evidence)
        state = _accept_or_halt(run, state, record, plan, findings)
        record = run.record_in(state) or record  # with the evidence: the log is not asked again
        counted = count_plan_rows(run, record, plan.ranges, state.head, state.erasing)
    if counted.mismatches:
        _keep(run, state, record, counted.evidence)
        raise VerificationFailed(
            f"table version {counted.version} does not match plan {plan.plan_id}: "
            + "; ".join(str(m) for m in counted.mismatches)
            + ". The position did not move",
            plan_id=plan.plan_id,
            table_version=counted.version,
            mismatches=[str(m) for m in counted.mismatches],
        )
    if (commit, counted.verified) != (record.table_commit, record.verified):
        _keep(run, state, record, counted.evidence, commit, counted.verified)
    reach("verify:verified")
    rows = sum(v.rows for v in counted.verified)
    offsets = sum(len(v.planned.offsets) for v in counted.verified)
    facts = (how_many(rows, "row"), how_many(offsets, "planned offset"), commit.version)
    log.info("verified: %s for %s, table version %s", *facts)
    return commit, counted.verified


def _halt_if_changed(run: RunContext, state: LedgerState, plan: BatchPlan, at: int | None) -> None:
    """What others did to the table comes before what the plan lacks there (R13)."""
    if foreign := foreign_changes(run, state, plan, at)[1]:
        open_and_halt(run, state, foreign)


def _accept_or_halt(
    run: RunContext,
    state: LedgerState,
    record: RunRecord,
    plan: BatchPlan,
    findings: tuple[Finding, ...],
) -> LedgerState:
    """Missing offsets may have a policy that accepts their loss; nothing else may go on here."""
    incidents = open_incidents(run, state, findings, plan)
    decided = triage_incidents(run, incidents).decided
    gaps_only = all(i.finding.kind in GAP_CLASSES for i in incidents)
    if not gaps_only or len(decided) < len(incidents) or not record.is_open:
        halt(run, incidents)
    return accept_gaps(run, decided)


def _keep(
    run: RunContext,
    counted: LedgerState,
    verifying: RunRecord,
    evidence: tuple[PartitionEvidence, ...],
    commit: TableCommit | None = None,
    verified: tuple[VerifiedRange, ...] = (),
) -> None:
    """Put evidence and what was verified into this run's record, and the plan's other open ones.

    Evidence can expire: it is kept also where the plan does not verify. There an open record
    forgets an earlier verification, so that nobody advances by it; a closed one keeps its own.
    The head notes the commit: whoever looks at the table misses it if that was put back (R13).

    Args:
        counted: The ledger by which the rows were counted.

    Raises:
        StreamBusy: Somebody has closed the run meanwhile, or rows were removed.
    """
    plan = verifying.plan
    assert plan is not None

    def keep(state: LedgerState) -> LedgerState:
        refuse_closed(state, verifying)
        state.refuse_recounted(counted, plan.ranges)
        executing = {verifying.run_id: verifying} | dict(state.runs)
        for record in executing.values():
            if record.plan is None or record.plan.plan_id != plan.plan_id:
                continue
            learned = replace(record, evidence=evidence)
            if commit is not None or record.is_open:
                learned = replace(learned, table_commit=commit, verified=verified)
            if learned != record:
                state = state.with_run(replace(learned, updated_at=now()))
        return state if commit is None else state.with_head(add_commit(state.head, plan, commit))

    reach("verify:keeping")
    run.ledger.update(keep)
    reach("verify:kept")


def advance_offsets(run: RunContext) -> RunRecord:
    """The run's closed record; the head is past the plan's ranges.

    Repeating it moves nothing and tells the consumer group again.

    Raises:
        BadInput: The plan's newest commit is not verified: only `advance_offsets` was cleared, or
            the plan was read again since.
        ResetDetected: Somebody else has changed the table since, or the log is another one.
        ServiceAway: The cluster cannot say whether it is.
        StreamBusy: The head is neither at the plan's start nor past its end.
    """
    state, record, plan = run.frozen()
    if plan is None:
        return record
    commit, table = look_for_commit(run, record, state.head)
    if record.is_open:
        _halt_if_changed(run, state, plan, table.version)
    if commit is None or commit != record.table_commit:
        raise BadInput(
            f"plan {plan.plan_id}: the newest commit in {run.stream.table.uri} is not verified;"
            " clear verify_ranges and the tasks after it, or run the same run id again",
            plan_id=plan.plan_id,
        )
    # Since verifying, the live lane may have taken a newer epoch for known: ask once more (R7).
    if record.is_open and (changed := changes_after_read(run, plan.on_cluster)):
        halt(run, open_incidents(run, state, changed, plan))
    state = close_plan(run, state, record, plan, commit, record.verified)
    commit_group_offsets(run)
    if (closed := run.record_in(state)) is None:
        raise StreamBusy("the ledger was restored while this run advanced; run again")
    name_tables(run, "raw")
    landed = [f"{r.topic_partition}: {r.start_offset} -> {r.end_offset}" for r in plan.ranges]
    is_live = run.request.lane == "live"
    log.info("%s: %s", "next offsets" if is_live else "landed", first_few(landed))
    return closed
