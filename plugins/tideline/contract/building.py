"""From the model's objects to the answers of commands, and to the parts that answers share.

Where a field has the name of an attribute, `Shape.of` takes it; what stands here is the rest: names
that the contract has kept, sums, and what only the moment knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tideline.contract import answers, parts
from tideline.errors import TidelineError
from tideline.model.current import Folding, FoldRecord
from tideline.model.decoding import DecodeRecord
from tideline.model.head import Head, Headroom
from tideline.model.incident import Finding, Incident, class_entry, entries_for
from tideline.model.maintenance import TableUpkeep
from tideline.model.offsets import PlannedRange
from tideline.model.run import Lost, Rewind, RunRecord

if TYPE_CHECKING:  # each task loads this module, and none of these on its account
    from tideline.folding.current_checking import CurrentCheck
    from tideline.folding.explaining import ExplainedKey
    from tideline.ledger.move import Move
    from tideline.ledger.state import LedgerState
    from tideline.model.decoding import DecodedAgain, Redriven
    from tideline.model.erasures import Erasing, Erasure
    from tideline.model.status import DryRun
    from tideline.operations.erasing import ErasePlan
    from tideline.rules.audit import Audit

AnyIncident = TypeVar("AnyIncident", bound=parts.Incident)


def build_incident(incident: Incident) -> parts.Incident:
    """An incident and the decision about it."""
    return _incident(parts.Incident, incident)


def build_incident_details(
    incident: Incident, affected: Sequence[tuple[int, RunRecord]]
) -> parts.IncidentDetails:
    """An incident and what it touches in the table.

    Args:
        incident: What was found.
        affected: Table versions with rows at the offsets at stake, and the runs that wrote them.
    """
    ranges = [planned for rows in incident.plans for planned in rows.ranges]
    return _incident(
        parts.IncidentDetails,
        incident,
        unverified=[(planned.topic, *planned.coordinates) for planned in ranges],
        affected_versions=[version for version, _ in affected],
        affected_runs=[record.run_id for _, record in affected],
    )


def _incident(shape: type[AnyIncident], incident: Incident, **facts: Any) -> AnyIncident:
    decision = incident.decision
    return shape.of(
        incident,
        incident.finding,
        id=incident.incident_id,
        decision=None if decision is None else decision.choice,
        decided_by=None if decision is None else decision.by,
        decided_at=None if decision is None else decision.at,
        reason=None if decision is None else decision.reason,
        runbook=class_entry(incident.finding.kind),
        **facts,
    )


def build_range(planned: PlannedRange, rows: int | None = None) -> parts.RangeWithRows:
    """A planned range; `rows` is None until they are verified."""
    return parts.RangeWithRows(planned.topic, *planned.coordinates, rows)


def build_positions(head: Head) -> list[parts.Position]:
    """The head's positions, also those of topics that are set aside."""
    return [parts.Position.of(p, followed=p.topic not in head.set_aside) for p in head.positions]


def build_headroom(known: Iterable[Headroom]) -> list[parts.Headroom]:
    """Times until retention reaches next offsets, counted from now."""
    now = datetime.now(UTC)
    return [parts.Headroom.of(h, seconds_left=h.seconds_left(now)) for h in known]


def build_summary(record: RunRecord) -> parts.RunSummary:
    """A run in a few numbers, with the ranges of its plan."""
    planned = record.plan.ranges if record.plan is not None else None
    is_own = record.finishes is None
    return parts.RunSummary.of(
        record,
        record.request,
        plan_id=_plan_id(record),
        offsets=sum(len(r.offsets) for r in planned) if is_own and planned is not None else None,
        rows=sum(v.rows for v in record.verified) if is_own and record.verified else None,
        table_version=_commit_version(record) if is_own else None,
        ranges=[build_range(r) for r in planned or ()],
    )


def build_rewind(rewind: Rewind) -> parts.Rewind:
    """A rewind; rows that Kafka can still give back are not among the lost ones."""
    return parts.Rewind.of(
        rewind,
        removed_rows=rewind.rows,
        table_version=rewind.removed_in_version,
        lost=[build_lost(item) for item in rewind.lost if item.rows],
    )


def build_lost(lost: Lost) -> parts.LostRows:
    """Rows that Kafka can no longer give back."""
    return parts.LostRows(lost.planned.topic, *lost.planned.coordinates, lost.rows, lost.reason)


def build_failure(error: TidelineError) -> answers.Failure:
    """Why a command ends without its answer."""
    facts = _failure_facts(error)
    if "problems" in error.facts:
        return answers.RefusedFiles(**facts, problems=error.facts["problems"])
    return answers.Failure(**facts)


def _failure_facts(error: TidelineError) -> dict[str, Any]:
    # No source of `Shape.of`: an error's own facts are attributes too, and have names of fields.
    return {
        "status": error.status,
        "error": type(error).__name__,
        "message": error.message,
        "retriable": error.retriable,
        "incidents": [build_incident(i) for i in error.facts.get("incidents", ())],
        "runbook": entries_for(error),
    }


def build_plan(stream: str, dry_run: DryRun) -> answers.Plan:
    """What a run would read, and what speaks against it."""
    return answers.Plan.of(
        dry_run,
        dry_run.proposal,
        stream=stream,
        incidents=[build_incident(i) for i in dry_run.incidents],
        headroom=build_headroom(dry_run.headroom),
    )


def build_run(
    record: RunRecord,
    decoded: DecodeRecord | None = None,
    folded: FoldRecord | None = None,
    *,
    replayed: bool = False,
) -> answers.Run:
    """A closed run, and what it has decoded and folded.

    Args:
        replayed: Whether its id had ended before: then nobody has asked what is unread.
    """
    lag = record.plan.offset_lag if record.plan is not None else 0
    return answers.Run(
        **_run_facts(record, decoded, folded),
        status="done" if record.status == "done" else "nothing_to_do",
        offset_lag=None if replayed else lag,
        replayed=replayed,
    )


def build_run_failure(error: TidelineError, record: RunRecord) -> answers.RunFailure:
    """A run that did not end: the error, and what the ledger knows of the run."""
    facts = {**_run_facts(record, None, None), **_failure_facts(error)}
    if record.plan is not None and not record.verified:
        facts["ranges"] = [build_range(planned) for planned in record.plan.ranges]
    return answers.RunFailure(**facts)


def _run_facts(
    record: RunRecord, decoded: DecodeRecord | None, folded: FoldRecord | None
) -> dict[str, Any]:
    """The fields of `RunFacts` without `status` and `offset_lag`, which depend on how it ended."""
    window = record.request.window
    return {
        "run_id": record.run_id,
        "plan_id": _plan_id(record),
        "lane": record.lane,
        "ranges": [build_range(v.planned, v.rows) for v in record.verified],
        "rows": sum(v.rows for v in record.verified),
        "decoded": None if decoded is None else decoded.decoded,
        "quarantined": None if decoded is None else decoded.quarantined,
        "tombstones": None if decoded is None else decoded.tombstones,
        "folded": None if folded is None else folded.changes,
        "table_version": _commit_version(record),
        "incidents": [build_incident(i) for i in record.resolved],
        "notices": (*record.notices, *(() if decoded is None else decoded.notices)),
        "superseded_by": record.superseded_by,
        "window": None if window is None else str(window),
        "reason": record.request.reason,
        "by": record.request.by,
    }


def _plan_id(record: RunRecord) -> str | None:
    return record.plan.plan_id if record.plan is not None else None


def _commit_version(record: RunRecord) -> int | None:
    return record.table_commit.version if record.table_commit is not None else None


def build_decoded(run_id: str, record: DecodeRecord | None) -> answers.Decoded:
    """What a run has decoded; None for nothing."""
    if record is None:
        return answers.Decoded(
            status="nothing_to_do",
            run_id=run_id,
            plan_id=None,
            decoded=0,
            types={},
            quarantined=0,
            tombstones=0,
            classes={},
            expectations={},
            table_version=None,
            quarantine_version=None,
            ranges=(),
            notices=(),
        )
    return answers.Decoded.of(
        record,
        status="done",
        run_id=run_id,
        plan_id=record.plan.plan_id,
        types={t.name: t.rows for t in record.by_type},
        classes=dict(record.classes),
        expectations=dict(record.failed),
        ranges=[
            parts.DecodedRange(r.range.topic, *r.range.coordinates, r.rows, r.typed, r.quarantined)
            for r in record.ranges
        ],
    )


def build_folded(run_id: str, record: FoldRecord | None, folding: Folding) -> answers.Folded:
    """What a run has folded; None for nothing."""
    plan = None if record is None else record.plan
    return answers.Folded(
        status="nothing_to_do" if record is None else "done",
        run_id=run_id,
        plan_id=None if plan is None else plan.plan_id,
        changes=0 if record is None else record.changes,
        keyless=0 if record is None else record.keyless,
        rows=folding.live,
        deleted=folding.deleted,
        buckets=0 if record is None else len(record.buckets),
        table_version=None if record is None else record.table_version,
        ranges=() if plan is None else plan.ranges,
    )


def build_checked(check: CurrentCheck) -> answers.CurrentChecked:
    """What a look at the current table came to."""
    folding = check.folding or Folding()
    return answers.CurrentChecked(
        clean=not check.flaws,
        changes=check.changes,
        rows=folding.live,
        deleted=folding.deleted,
        flaws=check.flaws,
        buckets=check.buckets or None,
    )


def build_decoded_again(run_id: str, done: DecodedAgain) -> answers.DecodedAgain:
    """What was made anew."""
    last = done.records[-1] if done.records else None
    return answers.DecodedAgain.of(
        done,
        status="done" if done.records else "nothing_to_do",
        run_id=run_id,
        table_version=None if last is None else last.table_version,
        quarantine_version=None if last is None else last.quarantine_version,
    )


def build_redriven(run_id: str, redriven: Redriven) -> answers.Redriven:
    """What a redrive has moved."""
    last = redriven.records[-1] if redriven.records else None
    return answers.Redriven.of(
        redriven,
        status="done" if redriven.moved else "nothing_to_do",
        run_id=run_id,
        left=redriven.asked - redriven.moved,
        table_version=None if last is None else last.table_version,
        quarantine_version=None if last is None else last.quarantine_version,
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
        coverage=state.head.coverage.entries,
        incidents=[build_incident(i) for i in (*state.open_incidents, *closed_incidents)],
        headroom=build_headroom(state.head.headroom),
        rewinds=[build_rewind(r) for r in rewinds],
    )


def build_explained_key(found: ExplainedKey) -> answers.ExplainedKey:
    """A key's row and its changes."""
    changes = [
        answers.KeyChange.of(
            c,
            deleted=c.is_deleted,
            folded=c.is_folded,
            swept=c.is_swept,
            truncated=c.is_truncated,
        )
        for c in found.changes
    ]
    return answers.ExplainedKey(
        key=dict(found.key),
        row=None if found.row is None else dict(found.row),
        deleted=found.is_deleted,
        changes=changes,
    )


def build_audit(audit: Audit, findings: Sequence[Finding]) -> answers.Audit:
    """An audit: clean where neither the audit nor the brokers show a flaw."""
    return answers.Audit.of(audit, clean=audit.clean and not findings, findings=findings)


def build_rewound(rewind: Rewind, head: Head) -> answers.Rewound:
    """A finished rewind and the head after it."""
    return answers.Rewound.of(
        build_rewind(rewind),
        table_version=rewind.removed_in_version or head.table_version,
        head=build_positions(head),
    )


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
        tables=upkeeps,
    )


ELSEWHERE = (
    "Kafka, until retention or compaction removes the records; unread records, which land later",
    "headers of other records, which may contain a key",
    "other people's records, which may have a key in another column, or in bytes that no column"
    " identifies (`undecided`)",
    "the ledger's keyed hashes: whoever can read it can test guesses of a key",
    "backups and copies of the tables and of the ledger, and whatever others have read out of them",
    "logs of other programs, and the memory and scratch space of running engines",
)
"""What no erasure reaches."""


def build_erasure(erasure: Erasure, at: datetime) -> answers.Erasure:
    """One erasure.

    Args:
        at: The time, for what is overdue.
    """
    return answers.Erasure.of(
        erasure,
        future=erasure.is_future,
        ranges=[(r.topic, *r.coordinates) for r in erasure.ranges],
        overdue=erasure.is_overdue(at),
        undecided=[(r.topic, *r.coordinates) for r in erasure.undecided],
        elsewhere=(*erasure.unreached, *ELSEWHERE),
    )


def build_erased(
    stream: str, plan: ErasePlan, at: datetime, *, is_plan: bool = False
) -> answers.Erased:
    """What an erasure has done, or would do; arguments as of `build_erasure`."""
    made = plan.erasure
    status = "nothing_to_do" if made is None else "planned" if is_plan else made.status
    return answers.Erased(
        status=status,
        stream=stream,
        before=plan.before,
        undecoded=plan.undecoded,
        without_records=plan.without,
        unread=plan.unread,
        undecided=[(r.topic, *r.coordinates) for r in plan.found.undecided],
        older_keys=plan.found.older.keys,
        older_deleted=plan.found.older.deleted,
        older_moved=plan.found.older.moved,
        erasure=None if made is None else build_erasure(made, at),
    )


def build_erasures(
    stream: str, erasing: Erasing, erasures: Sequence[Erasure], at: datetime
) -> answers.Erasures:
    """All erasures of a stream; arguments as of `build_erasure`."""
    return answers.Erasures(
        stream=stream,
        suppressed=erasing.erased.offsets,
        refused=erasing.refused,
        untold=erasing.untold,
        erasures=[build_erasure(e, at) for e in erasures],
    )


def build_move(stream: str, move: Move) -> answers.Move:
    """How a ledger was moved."""
    return answers.Move(
        stream=stream,
        moved=move.source is not None and not move.is_empty,
        source=None if move.source is None else str(move.source),
        location=str(move.target),
    )
