"""What only looks: the audit, what became of a record, and planning without storing anything."""

from __future__ import annotations

from dataclasses import replace

from tideline.decoding.verifying import typed_against_raw
from tideline.errors import AuditNotClean, BadInput, ServiceAway, StreamBusy, Transient
from tideline.folding.current_checking import audit_current
from tideline.landing.context import RunContext, now
from tideline.landing.halting import triage_incidents
from tideline.landing.observing import measure_headroom, observe
from tideline.ledger import leases
from tideline.model.incident import Finding, incident_key
from tideline.model.offsets import TopicPartition
from tideline.model.status import DryRun, Explanation
from tideline.model.wording import not_among
from tideline.operations.former_tables import left_by_erasures
from tideline.pipeline.freezing import refuses
from tideline.pipeline.proposing import draft, findings_of
from tideline.pipeline.recovery import head_after_recovery
from tideline.rules.audit import Audit, audit
from tideline.rules.incidents import blocked_by
from tideline.rules.positions import is_followed
from tideline.rules.stream_state import explain_offset, with_log

_TRIES = 5


def audit_stream(run: RunContext, buckets: int = 0) -> tuple[Audit, tuple[Finding, ...]]:
    """Ledger against tables, and ledger against broker; reads no values and writes nothing.

    Args:
        buckets: Of so many of the current table's all rows are read, each day of others in turn.

    Raises:
        ServiceAway: The brokers do not give a stable answer.
        StreamBusy: Runs closed faster than the table could be read.
        Halted: A rewind was begun and not finished.
    """
    leases.refuse_during_rewind(run.ledger.read(), run.ledger.holder)
    result = replace(
        ledger_against_table(run),
        typed=typed_against_raw(run),
        current=audit_current(run, buckets),
        unerased=left_by_erasures(run),
    )
    state = run.ledger.read()
    head = head_after_recovery(run, state)
    findings = findings_of(run, state, head, observe(run, head))
    transient = [str(f) for f in findings if f.kind == "transient"]
    if transient:
        raise ServiceAway(f"the audit needs a stable answer: {' '.join(transient)}")
    return result, findings


def ledger_against_table(run: RunContext) -> Audit:
    """Every closed run's coverage against every row's coordinates.

    Raises:
        StreamBusy: Runs closed faster than the table could be read.
    """
    for _ in range(_TRIES):
        state, version = run.ledger.read(), run.table.observe().version
        result = audit(
            state.head,
            run.ledger.closed_runs(),
            [r for r in state.runs.values() if r.is_open],
            run.table.stored(),
            state.erasing,
            # rows of a plan that was closed: a decision about them is still to be carried out
            [r for i in state.control.incidents for p in i.plans for r in p.ranges],
        )
        after = run.ledger.read()
        # A run that closed meanwhile is in the one and not yet in the other.
        basis = (state.head.coverage, state.runs, version)
        if basis == (after.head.coverage, after.runs, run.table.observe().version):
            return replace(result, table_version=version)
    raise StreamBusy("runs close faster than the table can be read; audit again later")


def explain_record(run: RunContext, place: TopicPartition, offset: int) -> Explanation:
    """What became of one record; the brokers are asked where the ledger has not landed it.

    Raises:
        BadInput: The stream has no such topic, the topic no such partition, or the log no such
            offset.
    """
    state = run.ledger.read()
    head, kafka = state.head, run.stream.kafka
    known = {p.topic for p in (*head.positions, *head.retired)}
    if place.topic not in known and not is_followed(place.topic, kafka):
        raise BadInput(f"topic: {not_among(place.topic, sorted(known | set(kafka.topics)))}")
    found = explain_offset(
        place,
        offset,
        head,
        state.runs.values(),
        state.open_incidents,
        state.decoding,
        run.ledger.recent_runs(),
        run.ledger.recent_incidents(),
        state.erasing,
        rewind=state.control.rewind,
    )
    if found.outcome not in ("unread", "gap", "not_followed"):
        return found
    try:
        observation = run.kafka.observe({place.topic}, {})
    except Transient as error:
        return replace(found, text=f"{found.text}; the brokers were not asked: {error.message}")
    return with_log(found, observation)


def require_clean(run: RunContext, buckets: int = 0) -> Audit:
    """An audit that others may build on.

    Args:
        buckets: As of `audit_stream`.

    Raises:
        AuditNotClean: It is not clean; names every kind of flaw with its place.
    """
    result, findings = audit_stream(run, buckets)
    flaws = [str(result)] if not result.clean else []
    flaws += [str(f) for f in findings]
    if flaws:
        raise AuditNotClean(
            f"stream {run.stream.stream}: NOT CLEAN: {'; '.join(flaws)}. Next: tideline audit FILE"
            " lists every range; the runbook says what to do about each kind",
            rows=result.rows,
        )
    return result


def dry_run(run: RunContext) -> DryRun:
    """One observation; nothing is stored, no incident is opened.

    Raises:
        StreamBusy: A rewind is at work.
        Halted: A rewind was begun and not finished.
    """
    run.warn()
    state = run.ledger.read()
    leases.refuse_during_rewind(state, run.ledger.holder)
    head = head_after_recovery(run, state)
    left_open = triage_incidents(run, state.live_incidents()).left_open
    made = draft(run, head, blocked_by(left_open, head), keep=False)
    observation = made.proposal.observation
    findings = findings_of(run, state, head, observation)
    verdicts = [f for f in findings if f.kind != "transient"]
    keys = {incident_key(f) for f in verdicts}
    would_be = state.with_incidents(verdicts, run.run_id, now()).control.incidents
    triage = triage_incidents(run, (i for i in would_be if i.unverified or i.key in keys))
    halts = bool(triage.halting or triage.asking)
    if run.request.lane == "backfill":
        halts = bool(verdicts or refuses(run, made.proposal))
    return DryRun(
        proposal=made.proposal,
        findings=findings,
        incidents=state.control.incidents,
        halts=halts,
        notices=made.notices,
        headroom=()
        if run.request.lane == "backfill"
        else measure_headroom(run, made.head, observation),
    )
