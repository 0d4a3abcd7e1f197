"""Step 3: carry out what a person or a policy decided about findings, and freeze what follows.

Decisions take effect here, with what is really lost recorded; position, epoch, generation,
incidents and the revised plan move in one compare-and-swap (R9).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tideline.core.coverage import Coverage
from tideline.core.decisions import execute, take_table
from tideline.core.head import Head
from tideline.core.incident import Incident, Outlook
from tideline.core.ledger_state import LedgerState
from tideline.core.observation import Observation, TableObservation
from tideline.core.offsets import OffsetRange, PartitionIdentity, Place
from tideline.core.result import RunRecord
from tideline.errors import ServiceAway
from tideline.failpoints import reach
from tideline.steps.auditing import ledger_against_table
from tideline.steps.context import RunContext, log, now
from tideline.steps.deciding import GAPS, execute_on_plan, settle_doubtful, settle_partially
from tideline.steps.detect_earliest_reset import (
    relevant_incidents,
    settled,
    warned_headroom,
)
from tideline.steps.freezing import freeze_run
from tideline.steps.halting import blocked_by, halt, outlook_of
from tideline.steps.observing import findings_of, look
from tideline.steps.plan_offset_ranges import plan_offset_ranges

_TRIES = 5
"""How often a decision is carried out anew when the log moves on meanwhile."""


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
        _resolve_table(run)
        _resolve_held(run, record)
        # A run that came upon another's plan, which is closed now, makes one of its own.
        record = run.record() or plan_offset_ranges(run)
    for _ in range(_TRIES):
        if record.status != "proposed":
            return bool(record.resolved)
        record = _resolve_found(run, record)
    raise ServiceAway("the log moves faster than decisions can be carried out; try again")


def _decided(run: RunContext, outlook: Outlook) -> tuple[Incident, ...]:
    if outlook.halting or outlook.asking:
        halt(run, (*outlook.halting, *outlook.asking))
    return outlook.decided


def _resolve_table(run: RunContext) -> None:
    """An approved change of the table that a frozen plan ran into; planning has not seen it."""
    decided = outlook_of(run, run.ledger.read().incidents_of_table()).decided
    for incident in decided:
        removed = _removed(run, incident)
        table = run.table.observe()

        def take(
            state: LedgerState,
            incident: Incident = incident,
            removed: tuple[Coverage, ...] = removed,
            table: TableObservation = table,
        ) -> LedgerState:
            effect = take_table(state.head, table, removed)
            closed = incident.closed(effect.outcome, now())
            after = replace(state.with_incidents_closed([closed]), head=effect.head)
            record = after.runs.get(run.run_id)
            if record is None:
                return after
            return after.with_run(replace(record, resolved=(*record.resolved, closed)))

        run.ledger.update(take)


def _resolve_held(run: RunContext, record: RunRecord) -> None:
    """Decisions about a plan that has landed and could not be verified."""
    plan = record.plan
    assert plan is not None
    held = run.ledger.read().incidents_of_plan(plan.plan_id)
    if not held:
        return
    outlook = outlook_of(run, held)
    if record.finishes is None and not outlook.decided:
        return  # its own run, cleared: ingest_ranges reads the range once more
    decided = _decided(run, outlook)
    if all(i.finding.kind in GAPS for i in held):
        execute_on_plan(run, decided)
    else:
        settle_partially(run, record, held)


@dataclass(frozen=True, slots=True)
class _Executed:
    """A head after decisions, and how the incidents ended."""

    head: Head
    closed: tuple[Incident, ...]
    amended: tuple[RunRecord, ...]
    left_out: frozenset[Place]


def _resolve_found(run: RunContext, record: RunRecord) -> RunRecord:
    """One try: the run's frozen record, or its proposal where the log has moved on meanwhile."""
    state, proposal, findings = settled(run, record)
    outlook = outlook_of(run, relevant_incidents(run, findings))
    decided = _decided(run, outlook)
    done = _execute_all(run, state, decided, proposal.observation)
    reach("resolve:decided")
    blocked = blocked_by(outlook.left_open, done.head) | done.left_out
    now_there = look(run, done.head, blocked)
    expected = {i.key for i in outlook.left_open}
    expected |= {i.key for i in decided if i.finding.kind == "unknown"}
    again = [
        f
        for f in findings_of(run, now_there.head, now_there.proposal.observation)
        if (f.kind, f.topic, f.topic_id, f.partition) not in expected
    ]
    if again:
        log.info("looking again: %s", again[0])
        return record
    headroom = warned_headroom(run, now_there.head, now_there.proposal)

    def moved(latest: Head) -> Head:
        # The digest has just been compared: only coverage may have grown beside us.
        return replace(now_there.head, coverage=latest.coverage, headroom=headroom)

    frozen = freeze_run(
        run,
        state,
        now_there.proposal,
        moved if done.closed else lambda latest: replace(latest, headroom=headroom),
        resolved=done.closed,
        amended=done.amended,
        still_open=expected,
    )
    for incident in done.closed:
        assert incident.decision is not None
        log.warning(
            "%s: %s by %s: %s",
            incident.incident_id,
            incident.decision.choice,
            incident.decision.by,
            incident.outcome,
        )
    return frozen


def _execute_all(
    run: RunContext, state: LedgerState, decided: tuple[Incident, ...], observation: Observation
) -> _Executed:
    head, closed, amended, left_out = state.head, [], [], frozenset[Place]()
    # Where the log itself is doubted, accepting a gap proves no row.
    in_doubt = any(i.doubtful and i.finding.kind not in GAPS for i in state.control.incidents)
    for incident in decided:
        version, outcome = None, "its unverified rows are gone; the range is planned anew"
        is_seen = _is_seen(run, head, observation, incident)
        if is_seen or incident.finding.kind in GAPS:
            removed = _removed(run, incident)
            effect = execute(head, incident, observation, removed)
            head, outcome = effect.head, effect.outcome
            left_out |= effect.left_out
        if incident.doubtful and (incident.finding.kind not in GAPS or not in_doubt):
            settled_rows = settle_doubtful(run, head, incident)
            head, version = settled_rows.head, settled_rows.removed_in_version
            if settled_rows.amended is not None:
                amended.append(settled_rows.amended)
        closed.append(incident.closed(outcome, now(), removed_in_version=version))
    return _Executed(head, tuple(closed), tuple(amended), left_out)


def _is_seen(run: RunContext, head: Head, observation: Observation, incident: Incident) -> bool:
    """Whether the head itself is concerned, and not only rows that were landed beyond it."""
    keys = {(f.kind, f.topic, f.topic_id, f.partition) for f in findings_of(run, head, observation)}
    return incident.key in keys


def _removed(run: RunContext, incident: Incident) -> tuple[Coverage, ...]:
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
