"""Step 3: carry out what a person or a policy decided about findings, and freeze what follows.

Decisions take effect here, with what is really lost recorded: position, epoch, generation and
incident move in one compare-and-swap (R9). Then the run observes once more and freezes its plan.
Where somebody can be asked in a form, as in Airflow, `ask` comes first.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from tideline.errors import ServiceAway, StreamBusy
from tideline.failpoints import reach
from tideline.landing.context import RunContext, log, now
from tideline.landing.halting import halt, relevant_incidents, triage_incidents
from tideline.landing.proof import proven_commit, verified_after_all
from tideline.ledger.state import LedgerState
from tideline.model.head import Head
from tideline.model.incident import Decision, Incident, incident_key
from tideline.model.observation import Observation
from tideline.model.places import NOWHERE
from tideline.model.run import RunRecord
from tideline.model.verdicts import GAP_CLASSES, VERIFIED_FIRST
from tideline.pipeline.decisions import (
    accept_gaps,
    decide_unverified_rows,
    recount_gap,
    rows_removed_by_others,
    skip_landed_generations,
    take_decided_table,
    take_over,
    update_table_incidents,
)
from tideline.pipeline.freezing import freeze_backfill, freeze_live
from tideline.pipeline.proposing import findings_of, stable_proposal
from tideline.pipeline.recovery import close_partially, replan
from tideline.rules.foreign_changes import OLDER_LEDGER
from tideline.rules.incidents import Triage, without_doubted
from tideline.rules.resolution import apply_decision

_TRIES = 5
"""How often decisions are carried out anew when the log moves on meanwhile."""


def resolve_reset(run: RunContext) -> bool:
    """Carry out decisions; the run's plan is frozen afterwards.

    A backfill that nothing has detected for, as its task was marked by hand, is detected for here:
    decisions about logs move the head, and are the live lane's.

    Returns:
        Whether this run has resolved anything.

    Raises:
        ResetDetected: Nobody has decided yet.
        WindowUnavailable: Part of what a backfill asks for has expired.
        StreamBusy: The head moved meanwhile.
        ServiceAway: The cluster does not give a stable answer.
    """
    state, record = run.snapshot()
    if record is not None and record.status == "planned" and record.plan is not None:
        state = _resolve_held(run, take_decided_table(run, state, record.plan), record)
        record = run.record_in(state)
    if record is None or (record.is_to_replan and record.lane == "live"):
        # Another run's plan is closed now, or its proposal has replaced this one's.
        state, record = replan(run, state, record)
    if record.status == "proposed" and record.lane == "backfill":
        record = freeze_backfill(run, *stable_proposal(run, state, record))
    granted: dict[Hashable, Decision] = {}
    for _ in range(_TRIES):
        if record.status != "proposed":
            if not record.resolved:
                log.info("nothing to resolve")
            return bool(record.resolved)
        state, record = _resolve_found(run, state, record, granted)
    raise ServiceAway("the log changes faster than decisions can be carried out; try again")


def _decided(run: RunContext, triage: Triage) -> tuple[Incident, ...]:
    if triage.halting or triage.asking:
        halt(run, (*triage.halting, *triage.asking))
    return triage.decided


def _resolve_held(run: RunContext, state: LedgerState, record: RunRecord) -> LedgerState:
    """Decisions about a plan that has landed and could not be verified."""
    plan = record.plan
    assert plan is not None
    held = state.incidents_of_plan(plan.plan_id)
    if not held:
        return state
    triage = triage_incidents(run, held)
    if record.finishes is None and not triage.decided:
        return state  # its own run, cleared: ingest_ranges checks, and reads again if it must
    commit = proven_commit(run, record, state.head)
    if commit is not None and verified_after_all(run, state, record, commit, held) is not None:
        return state  # what was found has gone by; advance_offsets closes the incidents
    decided = _decided(run, triage)
    if all(i.finding.kind in GAP_CLASSES for i in held):
        return accept_gaps(run, decided)
    return close_partially(run, state, record, held)


def _resolve_found(
    run: RunContext, state: LedgerState, record: RunRecord, granted: dict[Hashable, Decision]
) -> tuple[LedgerState, RunRecord]:
    """One round: carry decisions out, or freeze the plan where none is left to carry out.

    Args:
        record: The run's record, proposed.
        granted: Decisions of earlier rounds by incident key: the log may have moved on since, and
            they count for what it has lost meanwhile.
    """
    state, proposal, findings = stable_proposal(run, state, record)
    incidents = relevant_incidents(run, state, findings)
    triage = triage_incidents(run, (_with_granted(i, granted) for i in incidents))
    decided = _decided(run, triage)
    # Rows of doubt go first (R6); the next round passes over what is left.
    passed_over = tuple(i for i in decided if i.finding.kind == "unknown" and not i.unverified)
    to_execute = tuple(i for i in decided if i not in passed_over)
    for incident in to_execute:
        if incident.finding.detail == OLDER_LEDGER:  # first: what else was found may go with it
            state = take_over(run, state, incident, proposal.observation.table)
            return state, state.runs[run.run_id]
    if to_execute:
        # A table is approved as it was shown, and as nothing else.
        granted |= {
            i.key: i.decision
            for i in to_execute
            if i.decision is not None and i.finding.kind != "table_changed"
        }
        return _carry_out(run, state, to_execute, proposal.observation)
    closed = tuple(i.closed("left out of this run; its position stays", now()) for i in passed_over)
    return state, freeze_live(
        run,
        state,
        proposal,
        triage.left_open,
        passed_over=passed_over,
        resolved=(*record.resolved, *closed),
    )


def _with_granted(incident: Incident, granted: Mapping[Hashable, Decision]) -> Incident:
    decision = granted.get(incident.key)
    return incident if decision is None else replace(incident, decision=decision)


@dataclass(frozen=True, slots=True)
class _Executed:
    """A head after decisions, how the incidents ended, and records that learn something."""

    head: Head
    closed: tuple[Incident, ...]
    amended: Mapping[str, RunRecord]


def _carry_out(
    run: RunContext, state: LedgerState, decided: tuple[Incident, ...], observation: Observation
) -> tuple[LedgerState, RunRecord]:
    """Head, incidents and the run's record in one swap on the head that was observed."""
    done = _execute_all(run, state, decided, observation)
    reach("resolve:decided")

    def swap(latest: LedgerState) -> LedgerState:
        record = latest.runs.get(run.run_id)
        if record is None:
            raise StreamBusy("the run moved while a decision was carried out")
        if any(i.finding.kind in GAP_CLASSES for i in done.closed):
            _refuse_landed(state, latest)
        after = (
            latest.decided_alike(done.closed)
            .with_incidents_closed(done.closed)
            .with_head(done.head, made_from=state.head)
        )
        if any(i.finding.kind == "table_changed" or i.removed_in_version for i in done.closed):
            after = after.without_verifications()
        for amended in done.amended.values():
            after = after.with_run(amended)
        return after.with_run(replace(record, resolved=(*record.resolved, *done.closed)))

    after = run.ledger.update(swap)
    reach("resolve:carried_out")
    for incident in done.closed:
        assert incident.decision is not None
        log.warning(
            "%s: %s by %s: %s",
            incident.incident_id,
            incident.decision.choice,
            incident.decision.by,
            incident.outcome,
        )
    return after, after.runs[run.run_id]


def _refuse_landed(counted: LedgerState, latest: LedgerState) -> None:
    """A backfill that has advanced since gaps were counted may have filled them (R9)."""
    if counted.head.coverage != latest.head.coverage:
        raise StreamBusy("a backfill advanced while the loss was counted; run again")


def _execute_all(
    run: RunContext, state: LedgerState, decided: tuple[Incident, ...], observation: Observation
) -> _Executed:
    head, closed = state.head, []
    amended: dict[str, RunRecord] = {}
    for incident in sorted(decided, key=lambda i: i.finding.kind not in VERIFIED_FIRST):
        version, outcome = None, "the unverified rows are gone; a new plan reads the range again"
        if not incident.unverified:
            outcome = "nothing is lost: another decision of this run came first"
        is_gap = incident.finding.kind in GAP_CLASSES
        is_known = incident.finding.kind != "unknown"  # there is nothing to go on from
        if is_gap or (is_known and _is_seen(run, state, head, observation, incident)):
            removed = NOWHERE
            if incident.finding.kind == "table_changed":
                removed = rows_removed_by_others(run, state.head, observation.table.version)
            head = skip_landed_generations(run, head, observation, incident.finding)
            counted = recount_gap(run, incident) if is_gap else incident
            effect = apply_decision(head, counted, observation, removed)
            head, outcome = effect.head, effect.outcome
        for rows_of in incident.plans:
            of_it = incident.of(rows_of)
            if is_gap:
                of_it = without_doubted(of_it, state.control.incidents)
            if not of_it.unverified:
                continue
            rows = decide_unverified_rows(run, state, head, of_it, amended)
            head, version = rows.head, rows.removed_in_version or version
            if rows.amended is not None:
                outcome = outcome if is_gap else "the cluster answers: the rows are verified"
                amended[rows.amended.run_id] = rows.amended
        closed.append(incident.closed(outcome, now(), removed_in_version=version))
    return _Executed(head, tuple(closed), amended)


def _is_seen(
    run: RunContext,
    state: LedgerState,
    head: Head,
    observation: Observation,
    incident: Incident,
) -> bool:
    """Whether the head itself is concerned, and not only rows that were landed beyond it."""
    return incident.key in {incident_key(f) for f in findings_of(run, state, head, observation)}


def ask(run: RunContext) -> tuple[Incident, ...]:
    """What has to be asked before this run can go on; empty where nothing has.

    Raises:
        ResetDetected: A finding's policy is `fail`.
        ServiceAway: The cluster does not give a stable answer.
    """
    state, record = run.snapshot()
    if record is None or (record.is_to_replan and record.lane == "live"):
        state, record = replan(run, state, record)
    if record.status == "planned" and record.plan is not None:
        state, of_table = update_table_incidents(run, state, record.plan)
        incidents = (*of_table, *state.incidents_of_plan(record.plan.plan_id))
    elif record.status == "proposed" and record.lane == "live":
        state, _, findings = stable_proposal(run, state, record)
        incidents = relevant_incidents(run, state, findings)
    else:
        return ()
    triage = triage_incidents(run, incidents)
    if triage.halting:
        halt(run, triage.halting)
    if triage.asking:
        run.ledger.update(lambda latest: latest.with_question(triage.asking, run.run_id))
    return triage.asking
