"""From the model's objects to the parts that several answers share.

From the model's objects to what commands print.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tideline.contract import answers, shapes
from tideline.contract.shapes import fields_of
from tideline.errors import TidelineError
from tideline.model.decoding import DecodeRecord
from tideline.model.head import Head, Headroom
from tideline.model.incident import Finding, Incident, class_entry, entries_for
from tideline.model.maintenance import TableUpkeep
from tideline.model.offsets import PlannedRange
from tideline.model.run import Lost, Rewind, RunRecord

if TYPE_CHECKING:
    from tideline.ledger.move import Move
    from tideline.ledger.state import LedgerState
    from tideline.model.decoding import Redriven
    from tideline.model.status import DryRun
    from tideline.rules.audit import Audit


def build_incident(incident: Incident) -> shapes.Incident:
    """An incident and the decision about it."""
    return shapes.Incident(**_incident_facts(incident))


def build_incident_details(
    incident: Incident, affected: Sequence[tuple[int, RunRecord]]
) -> shapes.IncidentDetails:
    """An incident and what it touches in the table.

    Args:
        incident: What was found.
        affected: Table versions with rows at the offsets at stake, and the runs that wrote them.
    """
    return shapes.IncidentDetails(
        **_incident_facts(incident),
        unverified=[
            tuple(fields_of(planned, shapes.Coordinates).values())
            for rows in incident.plans
            for planned in rows.ranges
        ],
        affected_versions=[version for version, _ in affected],
        affected_runs=[record.run_id for _, record in affected],
    )


def build_range(planned: PlannedRange, rows: int | None = None) -> shapes.RangeWithRows:
    """A planned range; `rows` is None until they are verified."""
    return shapes.RangeWithRows(**fields_of(planned, shapes.Coordinates), rows=rows)


def build_positions(head: Head) -> list[shapes.Position]:
    """The head's positions, also those of topics that are set aside."""
    copied = set(shapes.Position.model_fields) - {"followed"}
    return [
        shapes.Position(
            **{name: getattr(p, name) for name in copied}, followed=p.topic not in head.set_aside
        )
        for p in head.positions
    ]


def run_facts(record: RunRecord) -> dict[str, Any]:
    """The fields of `RunFacts` without `status` and `offset_lag`, which depend on how it ended."""
    return {
        "run_id": record.run_id,
        "plan_id": record.plan.plan_id if record.plan is not None else None,
        "lane": record.lane,
        "ranges": [build_range(v.planned, v.rows) for v in record.verified],
        "rows": sum(v.rows for v in record.verified),
        "table_version": _commit_version(record),
        "incidents": [build_incident(i) for i in record.resolved],
        "notices": record.notices,
        "superseded_by": record.superseded_by,
        "window": str(record.request.window) if record.request.window is not None else None,
        "reason": record.request.reason,
        "by": record.request.by,
    }


def decoding_facts(record: DecodeRecord) -> dict[str, Any]:
    """What a verified decoding made of the raw rows."""
    return {
        **decoded_counts(record),
        "classes": dict(record.classes),
        "table_version": record.table_version,
        "quarantine_version": record.quarantine_version,
        "ranges": [
            shapes.DecodedRange(
                **fields_of(r.range, shapes.Coordinates),
                rows=r.rows,
                typed=r.typed,
                quarantined=r.quarantined,
            )
            for r in record.ranges
        ],
    }


def decoded_counts(record: DecodeRecord | None) -> dict[str, int | None]:
    """Raw rows by what became of them; null where nothing was decoded."""
    if record is None:
        return {"decoded": None, "quarantined": None, "tombstones": None}
    return {
        "decoded": record.decoded,
        "quarantined": record.quarantined,
        "tombstones": record.tombstones,
    }


def _commit_version(record: RunRecord) -> int | None:
    return record.table_commit.version if record.table_commit is not None else None


def _incident_facts(incident: Incident) -> dict[str, Any]:
    decision = incident.decision
    return {
        **fields_of(incident.finding, shapes.Finding),
        "id": incident.incident_id,
        "run_id": incident.run_id,
        "opened_at": incident.opened_at,
        "plan_id": incident.plan_id,
        "choices": incident.finding.choices,
        "decision": decision.choice if decision is not None else None,
        "decided_by": decision.by if decision is not None else None,
        "decided_at": decision.at if decision is not None else None,
        "reason": decision.reason if decision is not None else None,
        "closed_at": incident.closed_at,
        "outcome": incident.outcome,
        "removed_in_version": incident.removed_in_version,
        "runbook": class_entry(incident.finding.kind),
    }


def build_headroom(known: Iterable[Headroom]) -> list[shapes.Headroom]:
    """Times until retention reaches next offsets, counted from now."""
    now = datetime.now(UTC)
    copied = set(shapes.Headroom.model_fields) - {"seconds_left"}
    return [
        shapes.Headroom(
            **{name: getattr(h, name) for name in copied}, seconds_left=h.seconds_left(now)
        )
        for h in known
    ]


def build_summary(record: RunRecord) -> shapes.RunSummary:
    """A run in a few numbers, with the ranges of its plan."""
    planned = record.plan.ranges if record.plan is not None else None
    return shapes.RunSummary(
        run_id=record.run_id,
        plan_id=record.plan.plan_id if record.plan is not None else None,
        lane=record.lane,
        status=record.status,
        offsets=None if planned is None else sum(len(r.offsets) for r in planned),
        rows=sum(v.rows for v in record.verified) if record.verified else None,
        table_version=_commit_version(record),
        by=record.request.by,
        ranges=[build_range(r) for r in planned or ()],
    )


def build_rewind(rewind: Rewind) -> shapes.Rewind:
    """A rewind; rows that Kafka can still give back are not among the lost ones."""
    return shapes.Rewind(
        rewind_id=rewind.rewind_id,
        to_run=rewind.to_run,
        reason=rewind.reason,
        by=rewind.by,
        begun_at=rewind.begun_at,
        finished_at=rewind.finished_at,
        removed_rows=rewind.rows,
        table_version=rewind.removed_in_version,
        undone_runs=rewind.undone_runs,
        lost=[build_lost(item) for item in rewind.lost if item.rows],
    )


def build_lost(lost: Lost) -> shapes.LostRows:
    """Rows that Kafka can no longer give back."""
    planned = fields_of(lost.planned, shapes.Coordinates)
    return shapes.LostRows(**planned, rows=lost.rows, reason=lost.reason)


def build_failure(error: TidelineError) -> answers.Failure:
    """Why a command ends without its answer."""
    facts = _failure_facts(error)
    if "problems" in error.facts:
        return answers.RefusedFiles(**facts, problems=error.facts["problems"])
    return answers.Failure(**facts)


def build_plan(stream: str, dry_run: DryRun) -> answers.Plan:
    """What a run would read, and what speaks against it."""
    proposal = dry_run.proposal
    return answers.Plan(
        stream=stream,
        ranges=proposal.ranges,
        findings=dry_run.findings,
        incidents=[build_incident(i) for i in dry_run.incidents],
        notices=dry_run.notices,
        headroom=build_headroom(dry_run.headroom),
        gone=proposal.gone,
        estimated_records=proposal.estimated_records,
        estimated_bytes=proposal.estimated_bytes,
        offset_lag=proposal.offset_lag,
    )


def build_run(record: RunRecord, decoded: DecodeRecord | None = None) -> answers.Run:
    """A closed run, and what it has decoded."""
    lag = record.plan.offset_lag if record.plan is not None else 0
    status = "done" if record.status == "done" else "nothing_to_do"
    counts = decoded_counts(decoded)
    return answers.Run(**run_facts(record), **counts, status=status, offset_lag=lag)


def build_decoded(run_id: str, record: DecodeRecord | None) -> answers.Decoded:
    """What a run has decoded; None for nothing."""
    if record is None:
        nothing = dict.fromkeys(("decoded", "quarantined", "tombstones"), 0)
        return answers.Decoded(
            status="nothing_to_do",
            run_id=run_id,
            plan_id=None,
            **nothing,
            classes={},
            table_version=None,
            quarantine_version=None,
            ranges=(),
        )
    return answers.Decoded(
        status="done", run_id=run_id, plan_id=record.plan.plan_id, **decoding_facts(record)
    )


def build_run_failure(error: TidelineError, record: RunRecord) -> answers.RunFailure:
    """A run that did not end: the error, and what the ledger knows of the run."""
    facts = {**run_facts(record), **decoded_counts(None), **_failure_facts(error)}
    if record.plan is not None and not record.verified:
        facts["ranges"] = [build_range(planned) for planned in record.plan.ranges]
    return answers.RunFailure(**facts)


def build_redriven(run_id: str, redriven: Redriven) -> answers.Redriven:
    """What a redrive has moved."""
    last = redriven.records[-1] if redriven.records else None
    return answers.Redriven(
        status="done" if redriven.moved else "nothing_to_do",
        run_id=run_id,
        asked=redriven.asked,
        moved=redriven.moved,
        left=redriven.asked - redriven.moved,
        table_version=last.table_version if last is not None else None,
        quarantine_version=last.quarantine_version if last is not None else None,
    )


def build_ledger(
    stream: str,
    location: str,
    state: LedgerState,
    closed_runs: Iterable[RunRecord],
    closed_incidents: Iterable[Incident],
    rewinds: Iterable[Rewind],
) -> answers.Ledger:
    """Positions, runs and coverage; closed runs before open ones, open incidents before closed."""
    return answers.Ledger(
        location=location,
        stream=stream,
        version=state.version,
        head=build_positions(state.head),
        plans=[build_summary(r) for r in (*closed_runs, *state.runs.values())],
        coverage=state.head.coverage,
        incidents=[build_incident(i) for i in (*state.open_incidents, *closed_incidents)],
        headroom=build_headroom(state.head.headroom),
        rewinds=[build_rewind(r) for r in rewinds],
    )


def build_audit(audit: Audit, findings: Sequence[Finding]) -> answers.Audit:
    """An audit: clean where neither the audit nor the brokers show a flaw."""
    kinds = ("gaps", "overlaps", "duplicates", "missing", "foreign", "unverified")
    return answers.Audit(
        rows=audit.rows,
        **{kind: getattr(audit, kind) for kind in kinds},
        damaged=audit.damaged,
        typed=audit.typed,
        table_version=audit.table_version,
        clean=audit.clean and not findings,
        findings=findings,
    )


def build_rewound(rewind: Rewind, head: Head) -> answers.Rewound:
    """A finished rewind and the head after it."""
    facts = fields_of(build_rewind(rewind), shapes.Rewind)
    facts["table_version"] = rewind.removed_in_version or head.table_version
    return answers.Rewound(**facts, head=build_positions(head))


def build_not_rewound(to_run: str, head: Head) -> answers.NotRewound:
    """The stream was in the wanted state already."""
    return answers.NotRewound(
        to_run=to_run, table_version=head.table_version, head=build_positions(head)
    )


def build_rewind_failure(error: TidelineError, to_run: str) -> answers.RewindFailure:
    """Why a rewind was refused or cut off, and which rows would be lost."""
    lost = [build_lost(item) for item in error.facts.get("lost", ())]
    return answers.RewindFailure(**_failure_facts(error), to_run=to_run, lost=lost)


def build_maintenance(
    stream: str, upkeeps: Sequence[TableUpkeep], *, dry_run: bool
) -> answers.Maintenance:
    """What was done to a stream's tables, or would be."""
    has_work = any(u.merged.files or u.vacuumed.files or u.expired.rows for u in upkeeps)
    return answers.Maintenance(
        status="done" if has_work else "nothing_to_do",
        stream=stream,
        dry_run=dry_run,
        tables=[
            shapes.TableUpkeep(
                table=u.role,
                uri=u.uri,
                before=u.before,
                merged=u.merged,
                written=u.written,
                vacuumed=u.vacuumed,
                expired=u.expired,
                after=u.after,
            )
            for u in upkeeps
        ],
    )


def build_move(stream: str, move: Move) -> answers.Move:
    """How a ledger was moved."""
    return answers.Move(
        stream=stream,
        moved=move.source is not None and not move.is_empty,
        source=None if move.source is None else str(move.source),
        location=str(move.target),
    )


def _failure_facts(error: TidelineError) -> dict[str, Any]:
    return {
        "status": error.status,
        "error": type(error).__name__,
        "message": error.message,
        "retriable": error.retriable,
        "incidents": [build_incident(i) for i in error.facts.get("incidents", ())],
        "runbook": entries_for(error),
    }
