"""From the model's objects to what commands print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tideline.contract import answers, shapes
from tideline.contract.parts import (
    build_headroom,
    build_incident,
    build_lost,
    build_positions,
    build_range,
    build_rewind,
    build_summary,
    decoded_counts,
    decoding_facts,
    run_facts,
)
from tideline.contract.shapes import fields_of
from tideline.errors import TidelineError
from tideline.model.decoding import DecodeRecord
from tideline.model.head import Head
from tideline.model.incident import Finding, Incident
from tideline.model.maintenance import TableUpkeep
from tideline.model.rewind import Rewind
from tideline.model.run import RunRecord
from tideline.model.runbook import entries_for

if TYPE_CHECKING:  # whoever publishes an event must not load what an audit needs
    from tideline.ledger.move import Move
    from tideline.ledger.state import LedgerState
    from tideline.operations.dry_run import DryRun
    from tideline.operations.redrive import Redriven
    from tideline.rules.audit import Audit


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
