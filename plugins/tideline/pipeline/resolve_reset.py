"""Step 3: carry out what a person or a policy decided about findings, and freeze what follows.

Decisions take effect here, with what is really lost recorded: position, epoch, generation and
incident move in one compare-and-swap (R9). Then the run looks once more and freezes its plan.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace

from tideline.errors import ServiceAway, StreamBusy
from tideline.failpoints import reach
from tideline.ledger.state import LedgerState
from tideline.model.coverage import add_coverage
from tideline.model.head import Head
from tideline.model.incident import Decision, Incident, incident_key
from tideline.model.observation import Observation
from tideline.model.run import RunRecord
from tideline.pipeline.context import RunContext, log, now
from tideline.pipeline.deciding import (
    GAPS,
    execute_on_plan,
    resolve_table,
    rows_removed_by_others,
    settle_doubtful,
    settle_partially,
)
from tideline.pipeline.detect_earliest_reset import freeze_beside, relevant_incidents, settled
from tideline.pipeline.halting import halt, triage_incidents
from tideline.pipeline.landing import proven_commit, verified_after_all
from tideline.pipeline.observing import findings_of
from tideline.pipeline.plan_offset_ranges import plan_offset_ranges
from tideline.rules.resolution import execute
from tideline.rules.triage import Triage

_TRIES = 5
"""How often decisions are carried out anew when the log moves on meanwhile."""


def resolve_reset(run: RunContext) -> bool:
    """Carry out decisions; the run's plan is frozen afterwards.

    Returns:
        Whether this run has resolved anything.

    Raises:
        ResetDetected: Nobody has decided yet.
        StreamBusy: The head moved meanwhile.
        ServiceAway: The cluster does not give a settled answer.
    """
    record = run.record() or plan_offset_ranges(run)
    if record.status == "planned" and record.plan is not None:
        resolve_table(run)
        _resolve_held(run, record)
        # A run that came upon another's plan, which is closed now, makes one of its own.
        record = run.record() or plan_offset_ranges(run)
    granted: dict[Hashable, Decision] = {}
    for _ in range(_TRIES):
        if record.status != "proposed":
            return bool(record.resolved)
        record = _resolve_found(run, record, granted)
    raise ServiceAway("the log moves faster than decisions can be carried out; try again")


def _decided(run: RunContext, outlook: Triage) -> tuple[Incident, ...]:
    if outlook.halting or outlook.asking:
        halt(run, (*outlook.halting, *outlook.asking))
    return outlook.decided


def _resolve_held(run: RunContext, record: RunRecord) -> None:
    """Decisions about a plan that has landed and could not be verified."""
    plan = record.plan
    assert plan is not None
    held = run.ledger.read().incidents_of_plan(plan.plan_id)
    if not held:
        return
    outlook = triage_incidents(run, held)
    if record.finishes is None and not outlook.decided:
        return  # its own run, cleared: ingest_ranges looks again, and reads again if it must
    table_commit = proven_commit(run, record)
    if table_commit is not None and verified_after_all(run, record, table_commit, held) is not None:
        return  # what was found has gone by; verify_ranges closes the incidents
    decided = _decided(run, outlook)
    if all(i.finding.kind in GAPS for i in held):
        execute_on_plan(run, decided)
    else:
        settle_partially(run, record, held)


def _resolve_found(
    run: RunContext, record: RunRecord, granted: dict[Hashable, Decision]
) -> RunRecord:
    """One round: carry decisions out, or freeze the plan where none is left to carry out.

    Args:
        run: This run.
        record: Its record, proposed.
        granted: Decisions of earlier rounds by incident key: the log may have moved on since, and
            they count for what it has lost meanwhile.
    """
    state, proposal, findings = settled(run, record)
    incidents = tuple(_with_granted(i, granted) for i in relevant_incidents(run, findings))
    outlook = triage_incidents(run, incidents)
    decided = _decided(run, outlook)
    passed_over = tuple(i for i in decided if i.finding.kind == "unknown")
    to_execute = tuple(i for i in decided if i not in passed_over)
    if to_execute:
        granted |= {i.key: i.decision for i in to_execute if i.decision is not None}
        return _carry_out(run, state, to_execute, proposal.observation)
    closed = tuple(i.closed("left out of this run; its position stays", now()) for i in passed_over)
    return freeze_beside(
        run,
        state,
        proposal,
        outlook.left_open,
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
) -> RunRecord:
    """Head, incidents and the run's record in one swap on the head that was looked at."""
    done = _execute_all(run, state, decided, observation)
    reach("resolve:decided")

    def swap(latest: LedgerState) -> LedgerState:
        record = latest.runs.get(run.run_id)
        still_open = {i.incident_id for i in latest.control.incidents}
        moved = latest.head.digest != state.head.digest
        if record is None or moved or any(i.incident_id not in still_open for i in done.closed):
            raise StreamBusy("the head or an incident moved while a decision was carried out")
        # The digest is the same: beside us, only coverage may have grown.
        grown = [(c.identity, r) for c in latest.head.coverage for r in c.intervals]
        head = replace(done.head, coverage=add_coverage(done.head.coverage, grown))
        after = replace(latest.with_incidents_closed(done.closed), head=head)
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
    return after.runs[run.run_id]


def _execute_all(
    run: RunContext, state: LedgerState, decided: tuple[Incident, ...], observation: Observation
) -> _Executed:
    head, closed = state.head, []
    amended: dict[str, RunRecord] = {}
    # Where the log itself is doubted, accepting a gap proves no row.
    in_doubt = any(i.unverified and i.finding.kind not in GAPS for i in state.control.incidents)
    for incident in decided:
        version, outcome = None, "its unverified rows are gone; the range is planned anew"
        is_gap = incident.finding.kind in GAPS
        if is_gap or _is_seen(run, head, observation, incident):
            removed = rows_removed_by_others(run, incident)
            effect = execute(head, incident, observation, removed)
            head, outcome = effect.head, effect.outcome
        if incident.unverified and not (is_gap and in_doubt):
            settled_rows = settle_doubtful(run, head, incident, amended)
            head, version = settled_rows.head, settled_rows.removed_in_version
            if settled_rows.amended is not None:
                amended[settled_rows.amended.run_id] = settled_rows.amended
        closed.append(incident.closed(outcome, now(), removed_in_version=version))
    return _Executed(head, tuple(closed), amended)


def _is_seen(run: RunContext, head: Head, observation: Observation, incident: Incident) -> bool:
    """Whether the head itself is concerned, and not only rows that were landed beyond it."""
    return incident.key in {incident_key(f) for f in findings_of(run, head, observation)}
