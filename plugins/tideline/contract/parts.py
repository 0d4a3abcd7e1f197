"""From the model's objects to the parts that several answers share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from tideline.contract import shapes
from tideline.contract.shapes import fields_of
from tideline.model.decoding import DecodeRecord
from tideline.model.head import Head
from tideline.model.headroom import Headroom
from tideline.model.incident import Incident
from tideline.model.plan import PlannedRange
from tideline.model.rewind import Lost, Rewind
from tideline.model.run import RunRecord
from tideline.model.runbook import class_entry


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
